// Bodies of what belongs to no other area: versions, time, memory, statuses, the ABI's own questions.

#include <stdlib.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "api/generated/bodies.h"
#include "api/state.h"
#include "api/status.h"
#include "comm/create.h"
#include "include/mpi.h"
#include "runtime/base/clock.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

namespace weft::body {
namespace {

/// Copies with a final zero into a buffer of `room` characters; the length goes to *length.
void give(std::string_view text, char* to, size_t room, int* length) {
  const size_t n = text.copy(to, room - 1);
  to[n] = 0;
  *length = static_cast<int>(n);
}

constexpr size_t kAlignment = 64;  // a cache line: what vector code and transports like

}  // namespace

int Get_version(int* version, int* subversion) {
  *version = MPI_VERSION;
  *subversion = MPI_SUBVERSION;
  return MPI_SUCCESS;
}

int Get_library_version(char* version, int* resultlen) {
  give("Weft " PACKAGE_VERSION ", MPI 5.0, standard ABI 1.0", version, MPI_MAX_LIBRARY_VERSION_STRING, resultlen);
  return MPI_SUCCESS;
}

int Get_processor_name(char* name, int* resultlen) {
  if (api::state.instance && !api::state.instance->job().host.empty()) {
    give(api::state.instance->job().host, name, MPI_MAX_PROCESSOR_NAME, resultlen);
    return MPI_SUCCESS;
  }
  char host[MPI_MAX_PROCESSOR_NAME] = "localhost";
  gethostname(host, sizeof host - 1);
  give(host, name, MPI_MAX_PROCESSOR_NAME, resultlen);
  return MPI_SUCCESS;
}

double Wtime() { return static_cast<double>(now_ns()) * 1e-9; }
double Wtick() { return 1e-9; }

int Pcontrol(int) { return MPI_SUCCESS; }  // for profiling libraries, which take this name over

int Abi_get_version(int* abi_major, int* abi_minor) {
  *abi_major = MPI_ABI_VERSION;
  *abi_minor = MPI_ABI_SUBVERSION;
  return MPI_SUCCESS;
}

/// Sizes of the types that the ABI leaves to the platform (MPI 5.0, 20.2).
int Abi_get_info(MPI_Info* info) {
  comm::Info* made = comm::Info::make();
  made->set("mpi_aint_size", std::to_string(sizeof(MPI_Aint)));
  made->set("mpi_count_size", std::to_string(sizeof(MPI_Count)));
  made->set("mpi_offset_size", std::to_string(sizeof(MPI_Offset)));
  *info = api::encode(made);
  return MPI_SUCCESS;
}

MPI_Aint Aint_add(MPI_Aint base, MPI_Aint disp) { return static_cast<MPI_Aint>(static_cast<uint64_t>(base) + static_cast<uint64_t>(disp)); }
MPI_Aint Aint_diff(MPI_Aint addr1, MPI_Aint addr2) {
  return static_cast<MPI_Aint>(static_cast<uint64_t>(addr1) - static_cast<uint64_t>(addr2));
}

int Alloc_mem(MPI_Aint size, comm::Info* info, void* baseptr) {
  size_t alignment = kAlignment;
  if (const std::string* wish = info ? info->find("mpi_minimum_memory_alignment") : nullptr) {
    const unsigned long value = strtoul(wish->c_str(), nullptr, 10);
    if (value > alignment && value <= (1ul << 30) && !(value & (value - 1))) alignment = value;
  }
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, size ? static_cast<size_t>(size) : 1))
    return fail(MPI_ERR_NO_MEM, "no %lld bytes of memory to be had", static_cast<long long>(size));
  memcpy(baseptr, &memory, sizeof memory);
  return MPI_SUCCESS;
}

int Free_mem(void* base) {
  if (api::suspicious(base) && base) return fail(MPI_ERR_BASE, "base is %p, which MPI_Alloc_mem did not return", base);
  free(base);
  return MPI_SUCCESS;
}

int Get_hw_resource_info(MPI_Info* hw_info) {
  comm::Info* made = comm::Info::make();
  for (const auto& [name, bound] : comm::hardware_resources(api::state.instance->job())) made->set(name, bound ? "true" : "false");
  *hw_info = api::encode(made);
  return MPI_SUCCESS;
}

int Status_get_source(const MPI_Status* status, int* source) {
  *source = status->MPI_SOURCE;
  return MPI_SUCCESS;
}
int Status_get_tag(const MPI_Status* status, int* tag) {
  *tag = status->MPI_TAG;
  return MPI_SUCCESS;
}
int Status_get_error(const MPI_Status* status, int* err) {
  *err = status->MPI_ERROR;
  return MPI_SUCCESS;
}
int Status_set_source(MPI_Status* status, int source) {
  status->MPI_SOURCE = source;
  return MPI_SUCCESS;
}
int Status_set_tag(MPI_Status* status, int tag) {
  status->MPI_TAG = tag;
  return MPI_SUCCESS;
}
int Status_set_error(MPI_Status* status, int err) {
  status->MPI_ERROR = err;
  return MPI_SUCCESS;
}
int Status_set_cancelled(MPI_Status* status, int flag) {
  api::set_status_cancelled(*status, flag != 0);
  return MPI_SUCCESS;
}

}  // namespace weft::body

extern "C" [[gnu::visibility("default")]] int PMPIX_Query_cuda_support() { return 0; }
extern "C" [[gnu::weak, gnu::alias("PMPIX_Query_cuda_support"), gnu::visibility("default")]] int MPIX_Query_cuda_support();
