#include "runtime/net/verbs_library.h"

#include <dlfcn.h>

#include <cstring>
#include <string>

namespace weft::net {
namespace {

struct Opened {
  VerbsLibrary library{};
  std::string why;
};

Opened open_library() {
  Opened out;
  void* handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    out.why = std::string(dlerror()) + "; it belongs to rdma-core (Debian: apt install libibverbs1 ibverbs-providers)";
    return out;
  }
  auto optional = [&](auto& function, const char* name) {
    void* symbol = dlsym(handle, name);
    memcpy(&function, &symbol, sizeof symbol);
    return symbol != nullptr;
  };
  auto needed = [&](auto& function, const char* name) {
    if (!optional(function, name))
      out.why = std::string("libibverbs.so.1 has no ") + name + ": it is too old, rdma-core 28 or newer is needed";
  };
  VerbsLibrary& l = out.library;
  needed(l.free_device_list, "ibv_free_device_list");
  needed(l.get_device_list, "ibv_get_device_list");
  needed(l.get_device_name, "ibv_get_device_name");
  needed(l.open_device, "ibv_open_device");
  needed(l.close_device, "ibv_close_device");
  needed(l.query_device, "ibv_query_device");
  needed(l.query_port, "ibv_query_port");
  optional(l.query_gid_ex, "_ibv_query_gid_ex");
  needed(l.query_gid, "ibv_query_gid");
  needed(l.alloc_pd, "ibv_alloc_pd");
  needed(l.dealloc_pd, "ibv_dealloc_pd");
  needed(l.reg_mr, "ibv_reg_mr");
  optional(l.reg_dmabuf_mr, "ibv_reg_dmabuf_mr");
  needed(l.dereg_mr, "ibv_dereg_mr");
  needed(l.create_comp_channel, "ibv_create_comp_channel");
  needed(l.destroy_comp_channel, "ibv_destroy_comp_channel");
  needed(l.get_cq_event, "ibv_get_cq_event");
  needed(l.ack_cq_events, "ibv_ack_cq_events");
  needed(l.create_cq, "ibv_create_cq");
  needed(l.resize_cq, "ibv_resize_cq");
  needed(l.destroy_cq, "ibv_destroy_cq");
  needed(l.create_srq, "ibv_create_srq");
  needed(l.destroy_srq, "ibv_destroy_srq");
  needed(l.create_qp, "ibv_create_qp");
  needed(l.modify_qp, "ibv_modify_qp");
  needed(l.destroy_qp, "ibv_destroy_qp");
  needed(l.get_async_event, "ibv_get_async_event");
  needed(l.ack_async_event, "ibv_ack_async_event");
  needed(l.event_type_str, "ibv_event_type_str");
  needed(l.wc_status_str, "ibv_wc_status_str");
  needed(l.port_state_str, "ibv_port_state_str");
  if (!out.why.empty()) return out;
  // A child that writes to its memory must not take the pages that a device has; a no-op where the kernel sees to that (5.12).
  int (*fork_init)() = nullptr;
  if (optional(fork_init, "ibv_fork_init")) fork_init();
  return out;
}

}  // namespace

Result<const VerbsLibrary*> verbs_library() {
  static const Opened opened = open_library();
  if (!opened.why.empty()) return Failure{opened.why};
  return &opened.library;
}

}  // namespace weft::net
