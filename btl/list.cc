// The list of transports: a new one is one row here.
#include "btl/list.h"

#include <config.h>

#include <algorithm>
#include <array>

#include "runtime/net/rdma.h"

namespace weft::btl {
namespace {

#ifdef HAVE_VERBS
constexpr bool kVerbs = true;
#else
constexpr bool kVerbs = false;
#endif
#ifdef HAVE_UCX
constexpr bool kUcx = true;
#else
constexpr bool kUcx = false;
#endif

/// For those that give one transport.
template <Result<std::unique_ptr<Transport>> (*open)(const Site&)>
Result<Transports> one(const Site& site) {
  auto opened = open(site);
  if (!opened) return opened.failure();
  Transports list;
  list.push_back(std::move(*opened));
  return list;
}

std::string when_alone(const boot::Job& job, std::span<const std::string_view>) {
  return job.size == 1 ? "one rank has nobody to talk to" : "";
}

/// Loading the libraries of verbs and ucx takes time (UCX: up to half a second): they are tried only where they may reach a device that
/// tcp does not.
std::string without_rdma(const boot::Job& job, std::span<const std::string_view> opened) {
  if (job.node_count == 1) return "all ranks are on one host";
  if (!net::rdma_port_is_active()) return "no InfiniBand or RoCE port is up";
  return std::ranges::find(opened, "verbs") != opened.end() ? "verbs reaches the same devices" : "";
}

constexpr std::array list{
    Kind{"self", true, one<open_self>, nullptr},      // a process can always send to itself
    Kind{"shm", true, one<open_shm>, nullptr},        //
    Kind{"verbs", kVerbs, open_verbs, without_rdma},  //
    Kind{"ucx", kUcx, one<open_ucx>, without_rdma},   //
    Kind{"tcp", true, open_tcp, when_alone},          //
};

}  // namespace

std::span<const Kind> kinds() { return list; }

}  // namespace weft::btl
