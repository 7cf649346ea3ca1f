#include "launcher/environment.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace weft::launcher {
namespace {

/// Is this a variable that says who a rank is, left over from an outer job?
bool stale(std::string_view variable) {
  for (std::string_view start : {"PMIX_NAMESPACE=",
                                 "PMIX_RANK=",
                                 "PMIX_SERVER_",
                                 "PMIX_DSTORE_",
                                 "PMIX_SECURITY_MODE=",
                                 "PMIX_PTL_MODULE=",
                                 "PMIX_BFROP_BUFFER_TYPE=",
                                 "PMIX_GDS_MODULE=",
                                 "PMIX_HOSTNAME=",
                                 "PMIX_VERSION=",
                                 "PMI_",
                                 "OMPI_COMM_WORLD_",
                                 "OMPI_UNIVERSE_SIZE=",
                                 "MPI_LOCALRANKID=",
                                 "MPI_LOCALNRANKS=",
                                 "PMIX_OUTPUT_STDERR_FD=",
                                 "PRTE_LAUNCHED=",
                                 "NS_META_SEG_SIZE=",
                                 "NS_DATA_SEG_SIZE=",
                                 "WEFT_NEAR_NICS=",
                                 "WEFT_JOB=",
                                 "WEFT_COLL_TUNED=",
                                 "WEFT_LAUNCHER_"})
    if (variable.starts_with(start)) return true;
  return false;
}

/// The same for torchrun's names, which are too plain to be taken from a user who is no rank.
bool stale_torch(std::string_view variable) {
  for (std::string_view start : {"RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "LOCAL_WORLD_SIZE=", "MASTER_ADDR=", "MASTER_PORT="})
    if (variable.starts_with(start)) return true;
  return false;
}

bool has(const std::vector<std::string>& environment, const std::string& name) {
  return std::any_of(environment.begin(), environment.end(), [&](const std::string& entry) { return entry.starts_with(name + "="); });
}

bool taken(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return true;
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  const bool refused = bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0;
  close(fd);
  return refused;
}

}  // namespace

std::vector<std::string> inherited(const App& app, const char* const* environment) {
  std::vector<std::string> result;
  if (app.inherit == Inherit::none) return result;
  bool inside = false;
  for (const char* const* v = environment; *v; v++) inside |= std::string_view(*v).starts_with("WEFT_JOB=");
  for (const char* const* v = environment; *v; v++) {
    const std::string_view variable = *v;
    if (stale(variable) || (inside && stale_torch(variable))) continue;
    const std::string_view name = variable.substr(0, variable.find('='));
    if (app.inherit == Inherit::listed && std::find(app.listed.begin(), app.listed.end(), name) == app.listed.end()) continue;
    result.emplace_back(variable);
  }
  return result;
}

void set_variable(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  const std::string head = name + "=";
  for (std::string& entry : environment)
    if (entry.starts_with(head)) {
      entry = head + value;
      return;
    }
  environment.push_back(head + value);
}

std::vector<std::pair<std::string, std::string>> contract(const JobEnvironment& job, const Seat& seat,
                                                          const std::vector<std::string>& known) {
  const std::string rank = std::to_string(seat.rank), size = std::to_string(seat.size);
  const std::string local = std::to_string(seat.local_rank), locals = std::to_string(seat.local_size);
  std::vector<std::pair<std::string, std::string>> all = {{"WEFT_JOB", job.job},
                                                          {"OMPI_COMM_WORLD_RANK", rank},
                                                          {"OMPI_COMM_WORLD_SIZE", size},
                                                          {"OMPI_COMM_WORLD_LOCAL_RANK", local},
                                                          {"OMPI_COMM_WORLD_LOCAL_SIZE", locals},
                                                          {"OMPI_COMM_WORLD_NODE_RANK", local},
                                                          {"OMPI_UNIVERSE_SIZE", job.universe.empty() ? size : job.universe},
                                                          {"PMI_RANK", rank},
                                                          {"PMI_SIZE", size},
                                                          {"MPI_LOCALRANKID", local},
                                                          {"MPI_LOCALNRANKS", locals}};
  if (!job.torch) return all;
  all.insert(all.end(), {{"RANK", rank}, {"WORLD_SIZE", size}, {"LOCAL_RANK", local}, {"LOCAL_WORLD_SIZE", locals}});
  if (!has(known, "MASTER_ADDR")) all.emplace_back("MASTER_ADDR", job.master);
  if (!has(known, "MASTER_PORT")) all.emplace_back("MASTER_PORT", std::to_string(job.master_port));
  return all;
}

std::vector<std::pair<std::string, std::string>> device_variables(const placement::Place& place) {
  const auto joined = [](const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
    return text;
  };
  if (place.gpus.empty()) return {};
  // without the order CUDA would number the fastest first, and our numbers would mean others
  return {{"CUDA_VISIBLE_DEVICES", joined(place.gpus)}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}, {"WEFT_NEAR_NICS", joined(place.nics)}};
}

std::string variable_of(std::string setting) {
  for (char& c : setting) c = c == '.' || c == '-' ? '_' : char(toupper(static_cast<unsigned char>(c)));
  return setting.starts_with("WEFT_") ? setting : "WEFT_" + setting;
}

uint16_t free_port() {
  constexpr uint16_t first = 20000, count = 12000;  // connections get theirs from 32768 on, unless an administrator says otherwise
  const uint32_t start = uint32_t(getpid()) * 7;    // jobs that start together look in different places
  for (uint32_t i = 0; i < count; i++)
    if (const auto port = uint16_t(first + (start + i) % count); !taken(port)) return port;
  return 0;
}

}  // namespace weft::launcher
