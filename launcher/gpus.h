// Which of a host's GPUs ranks may use: those that the driver shows here, cut to the user's CUDA_VISIBLE_DEVICES.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/job.h"
#include "runtime/topo/node.h"

namespace weft::launcher {

/// The devices that are there for ranks: GPUs that the driver knows (a container has fewer than the bus shows), numbered as
/// CUDA_DEVICE_ORDER=PCI_BUS_ID numbers them; GPUs that only the driver knows come last, their place unknown. `root`: for tests.
std::vector<topo::Device> present_devices(std::vector<topo::Device> devices, const std::string& root = "");

/// Leaves the GPUs that CUDA_VISIBLE_DEVICES=`visible` names, in its order, each named as it was written: numbers, or "GPU-..." (UUIDs or
/// how they begin, as far as `root` tells them; otherwise, as parts of a GPU, their place is unknown). What comes behind a number that does
/// not exist is not visible, as CUDA has it.
std::vector<topo::Device> visible_devices(std::vector<topo::Device> devices, const std::string& visible, const std::string& root = "");

/// What ranks will find in CUDA_VISIBLE_DEVICES: -x and its like, otherwise this process's own.
std::optional<std::string> wanted_gpus(const Options& options);

}  // namespace weft::launcher
