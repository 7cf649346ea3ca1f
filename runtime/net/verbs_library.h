// libibverbs, opened when it is needed. Only where its headers were there at build time.
#pragma once

#include <infiniband/verbs.h>

#include "runtime/base/status.h"

namespace weft::net {

/// Its functions; those that its header defines inline work on what these return.
struct VerbsLibrary {
  // those that the header makes macros of are written out
  ibv_device** (*get_device_list)(int*);
  decltype(&::ibv_free_device_list) free_device_list;
  decltype(&::ibv_get_device_name) get_device_name;
  decltype(&::ibv_open_device) open_device;
  decltype(&::ibv_close_device) close_device;
  decltype(&::ibv_query_device) query_device;
  int (*query_port)(ibv_context*, uint8_t, ibv_port_attr*);  ///< fills the older part only: clear it before
  decltype(&::_ibv_query_gid_ex) query_gid_ex;               ///< null in old versions
  decltype(&::ibv_query_gid) query_gid;
  decltype(&::ibv_alloc_pd) alloc_pd;
  decltype(&::ibv_dealloc_pd) dealloc_pd;
  ibv_mr* (*reg_mr)(ibv_pd*, void*, size_t, int);
  decltype(&::ibv_reg_dmabuf_mr) reg_dmabuf_mr;  ///< null in old versions
  decltype(&::ibv_dereg_mr) dereg_mr;
  decltype(&::ibv_create_comp_channel) create_comp_channel;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel;
  decltype(&::ibv_get_cq_event) get_cq_event;
  decltype(&::ibv_ack_cq_events) ack_cq_events;
  decltype(&::ibv_create_cq) create_cq;
  decltype(&::ibv_resize_cq) resize_cq;
  decltype(&::ibv_destroy_cq) destroy_cq;
  decltype(&::ibv_create_srq) create_srq;
  decltype(&::ibv_destroy_srq) destroy_srq;
  decltype(&::ibv_create_qp) create_qp;
  decltype(&::ibv_modify_qp) modify_qp;
  decltype(&::ibv_destroy_qp) destroy_qp;
  decltype(&::ibv_get_async_event) get_async_event;
  decltype(&::ibv_ack_async_event) ack_async_event;
  decltype(&::ibv_event_type_str) event_type_str;
  decltype(&::ibv_wc_status_str) wc_status_str;
  decltype(&::ibv_port_state_str) port_state_str;
};

/// The library, opened at the first call; a Failure that names the remedy if it is not there.
Result<const VerbsLibrary*> verbs_library();

}  // namespace weft::net
