// What the end of a work request usually means, for people.
#pragma once

#include <infiniband/verbs.h>

namespace weft::btl::verbs {

/// And what to try.
inline const char* usual_meaning(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "the other port does not acknowledge: its process or host has ended, the link or a switch in between is down, or lossless "
             "traffic "
             "(PFC) and MTU are not set up alike; WEFT_VERBS_TIMEOUT sets how long to wait";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the other side has no slot for a message, which its credit promised; use the same Weft on all hosts";
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
      return "the other side refused access to its memory: a buffer of its program was freed or unmapped before its message was complete; "
             "look there for one that does not stay until MPI_Wait";
    case IBV_WC_LOC_PROT_ERR:
      return "a buffer on this side was freed or unmapped before its message was complete; look for one that does not stay until MPI_Wait";
    case IBV_WC_WR_FLUSH_ERR: return "the connection had broken off before: an earlier line says why, here or on the other side";
    case IBV_WC_LOC_LEN_ERR: return "the two sides disagree about sizes; use the same Weft on all hosts";
    default:
      return "the device or its driver failed: look at the kernel's log (dmesg) of both hosts, or leave it out by WEFT_VERBS_DEVICES";
  }
}

}  // namespace weft::btl::verbs
