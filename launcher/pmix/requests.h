// What ranks ask of their job through PMIx, on its way to the job's services and back.
#pragma once

#include <pmix_server.h>

#include "launcher/events.h"
#include "launcher/service.h"

namespace weft::launcher::pmix {

/// The upcalls of a PMIx server, as PMIx declares them. They come on PMIx's thread and never block; `services` is called by the loop's.
class Requests {
 public:
  Requests(Mailbox& mailbox, Services& services) : mailbox_(mailbox), services_(services) {}

  pmix_status_t publish(const pmix_proc_t*, const pmix_info_t[], size_t, pmix_op_cbfunc_t, void*);
  pmix_status_t lookup(const pmix_proc_t*, char**, const pmix_info_t[], size_t, pmix_lookup_cbfunc_t, void*);
  pmix_status_t unpublish(const pmix_proc_t*, char**, pmix_op_cbfunc_t, void*);
  pmix_status_t connect(Gather::What, const pmix_proc_t[], size_t, pmix_op_cbfunc_t, void*);
  pmix_status_t group(pmix_group_operation_t, const char*, const pmix_proc_t[], size_t, const pmix_info_t[], size_t, pmix_info_cbfunc_t,
                      void*);
  pmix_status_t notify(pmix_status_t, const pmix_proc_t*, pmix_data_range_t, const pmix_info_t[], size_t);
  pmix_status_t spawn(const pmix_proc_t*, const pmix_info_t[], size_t, const pmix_app_t[], size_t, pmix_spawn_cbfunc_t, void*);

 private:
  Mailbox& mailbox_;
  Services& services_;

  void explain(const Proc& who, const std::string& why, int32_t status, pmix_spawn_cbfunc_t done, void* token);
  void ask(Service what, std::string body, Services::Done done);
};

}  // namespace weft::launcher::pmix
