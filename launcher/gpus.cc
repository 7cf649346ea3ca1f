#include "launcher/gpus.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "launcher/place/words.h"

namespace weft::launcher {
namespace {

using topo::Device;
namespace fs = std::filesystem;

constexpr char kVisible[] = "CUDA_VISIBLE_DEVICES";

/// Device files /dev/nvidia0, /dev/nvidia1, ...
size_t device_files(const std::string& root) {
  size_t count = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root + "/dev", error)) {
    const std::string name = entry.path().filename().string();
    count += name.starts_with("nvidia") && name.size() > 6 && name.find_first_not_of("0123456789", 6) == name.npos;
  }
  return count;
}

/// "GPU-xxxxxxxx-...", or empty if the driver does not tell.
std::string uuid_of(const Device& gpu, const std::string& root) {
  std::ifstream file(root + "/proc/driver/nvidia/gpus/" + gpu.bus + "/information");
  for (std::string line; std::getline(file, line);)
    if (const size_t at = line.find("GPU-"); line.starts_with("GPU UUID") && at != line.npos) return line.substr(at);
  return {};
}

bool is_gpu(const Device& device) { return device.kind == Device::Kind::gpu; }

}  // namespace

std::vector<Device> present_devices(std::vector<Device> devices, const std::string& root) {
  std::error_code error;
  size_t known = 0;
  for (const auto& entry : fs::directory_iterator(root + "/proc/driver/nvidia/gpus", error)) known += entry.is_directory();
  if (error) {  // no driver, or one that hides itself (a sandbox)
    std::erase_if(devices, is_gpu);
  } else {
    std::erase_if(devices, [&](const Device& device) {
      return is_gpu(device) && !fs::exists(root + "/proc/driver/nvidia/gpus/" + device.bus, error);
    });
  }
  const size_t placed = static_cast<size_t>(std::ranges::count_if(devices, is_gpu));
  for (size_t i = placed; i < std::max(known, placed ? 0 : device_files(root)); ++i) devices.push_back({Device::Kind::gpu, "", {}, {}, {}});
  size_t number = 0;
  for (Device& device : devices)
    if (is_gpu(device)) device.name = std::to_string(number++);
  return devices;
}

std::vector<Device> visible_devices(std::vector<Device> devices, const std::string& visible, const std::string& root) {
  std::vector<Device> result, gpus;
  for (Device& device : devices) (is_gpu(device) ? gpus : result).push_back(std::move(device));
  for (const std::string& word : placement::split(visible, ',')) {
    const std::vector<std::string> words = placement::split_words(word);
    if (words.size() != 1) break;
    Device chosen{Device::Kind::gpu, words[0], {}, {}, {}};
    if (words[0].starts_with("GPU-")) {
      const auto found = std::ranges::find_if(gpus, [&](const Device& gpu) { return uuid_of(gpu, root).starts_with(words[0]); });
      if (found != gpus.end()) chosen = *found;
    } else if (!words[0].starts_with("MIG-")) {
      const auto number = placement::parse_number(words[0], 0, UINT32_MAX - 1);
      if (!number || *number >= gpus.size()) break;
      chosen = gpus[*number];
    }
    chosen.name = words[0];
    if (std::ranges::find(result, chosen.name, &Device::name) == result.end()) result.push_back(std::move(chosen));
  }
  return result;
}

std::optional<std::string> wanted_gpus(const Options& options) {
  for (const App& app : options.apps)
    for (auto variable = app.variables.rbegin(); variable != app.variables.rend(); ++variable)
      if (variable->first == kVisible) return variable->second;
  if (const char* value = getenv(kVisible)) return value;
  return {};
}

}  // namespace weft::launcher
