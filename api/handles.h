// From MPI handles to objects and back. Predefined handles are ABI constants below 4096, others are pointers to objects.
#pragma once

#include <cstdint>

#include "api/state.h"
#include "comm/comm.h"
#include "include/mpi.h"
#include "runtime/base/object.h"
#include "runtime/op/op.h"
#include "runtime/type/datatype.h"
#include "runtime/type/predefined.h"

namespace weft::api {

inline constexpr uintptr_t kPredefinedEnd = 4096;

template <class H>
uintptr_t bits(H handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

/// The object behind a handle that is no ABI constant; null if it is of another kind or was freed.
template <class T, class H>
T* decode_pointer(H handle, Kind kind) {
  if (bits(handle) < kPredefinedEnd || bits(handle) % alignof(Object)) [[unlikely]]
    return nullptr;
  Object* object = reinterpret_cast<Object*>(handle);
  if (object->kind != kind || object->user_freed) [[unlikely]]
    return nullptr;
  return static_cast<T*>(object);
}

// decode(): the object behind a handle; null if the handle is null, freed or of the wrong kind. These are never errors by
// themselves: MPI_REQUEST_NULL and the like decode to null as well.
inline comm::Communicator* decode(MPI_Comm handle) {
  if (handle == MPI_COMM_WORLD) return state.world;
  if (handle == MPI_COMM_SELF) return state.self;
  return decode_pointer<comm::Communicator>(handle, Kind::communicator);
}
inline type::Datatype* decode(MPI_Datatype handle) {
  if (bits(handle) < kPredefinedEnd) return type::predefined(static_cast<uint32_t>(bits(handle)));
  return decode_pointer<type::Datatype>(handle, Kind::datatype);
}
inline op::Op* decode(MPI_Op handle) {
  if (bits(handle) < kPredefinedEnd) return op::predefined(bits(handle));
  return decode_pointer<op::Op>(handle, Kind::op);
}
inline comm::Group* decode(MPI_Group handle) {
  if (handle == MPI_GROUP_EMPTY) return &comm::empty_group();
  return decode_pointer<comm::Group>(handle, Kind::group);
}
inline comm::Info* decode(MPI_Info handle) {
  if (handle == MPI_INFO_ENV) return &comm::environment_info();
  return decode_pointer<comm::Info>(handle, Kind::info);
}
inline comm::Errhandler* decode(MPI_Errhandler handle) {
  if (handle == MPI_ERRORS_ARE_FATAL) return &comm::errors_are_fatal();
  if (handle == MPI_ERRORS_ABORT) return &comm::errors_abort();
  if (handle == MPI_ERRORS_RETURN) return &comm::errors_return();
  return decode_pointer<comm::Errhandler>(handle, Kind::errhandler);
}
inline pml::Request* decode(MPI_Request handle) { return decode_pointer<pml::Request>(handle, Kind::request); }
inline comm::Session* decode(MPI_Session handle) { return decode_pointer<comm::Session>(handle, Kind::session); }
inline Object* decode(MPI_Win handle) { return decode_pointer<Object>(handle, Kind::window); }
inline Object* decode(MPI_File handle) { return decode_pointer<Object>(handle, Kind::file); }
/// pml's messages begin with an Object of Kind::message; MPI_MESSAGE_NO_PROC is Lane::no_process().
inline pml::Message* decode(MPI_Message handle) {
  if (handle == MPI_MESSAGE_NO_PROC) return pml::Lane::no_process();
  return reinterpret_cast<pml::Message*>(decode_pointer<Object>(handle, Kind::message));
}

// encode(): the handle of an object, the null handle for a null pointer.
inline MPI_Comm encode(comm::Communicator* object) {
  if (!object) return MPI_COMM_NULL;
  if (object == state.world) return MPI_COMM_WORLD;
  if (object == state.self) return MPI_COMM_SELF;
  return reinterpret_cast<MPI_Comm>(static_cast<Object*>(object));
}
inline MPI_Datatype encode(const type::Datatype* object) {
  if (!object) return MPI_DATATYPE_NULL;
  if (object->abi_handle) return reinterpret_cast<MPI_Datatype>(uintptr_t{object->abi_handle});
  return reinterpret_cast<MPI_Datatype>(const_cast<Object*>(static_cast<const Object*>(object)));
}
inline MPI_Op encode(const op::Op* object) {
  if (!object) return MPI_OP_NULL;
  if (object->abi_handle) return reinterpret_cast<MPI_Op>(uintptr_t{object->abi_handle});
  return reinterpret_cast<MPI_Op>(const_cast<Object*>(static_cast<const Object*>(object)));
}
inline MPI_Group encode(comm::Group* object) {
  if (!object) return MPI_GROUP_NULL;
  if (object == &comm::empty_group()) return MPI_GROUP_EMPTY;
  return reinterpret_cast<MPI_Group>(static_cast<Object*>(object));
}
inline MPI_Info encode(comm::Info* object) {
  if (!object) return MPI_INFO_NULL;
  if (object->predefined) return MPI_INFO_ENV;
  return reinterpret_cast<MPI_Info>(static_cast<Object*>(object));
}
inline MPI_Errhandler encode(comm::Errhandler* object) {
  if (!object) return MPI_ERRHANDLER_NULL;
  if (object == &comm::errors_are_fatal()) return MPI_ERRORS_ARE_FATAL;
  if (object == &comm::errors_abort()) return MPI_ERRORS_ABORT;
  if (object == &comm::errors_return()) return MPI_ERRORS_RETURN;
  return reinterpret_cast<MPI_Errhandler>(static_cast<Object*>(object));
}
inline MPI_Request encode(pml::Request& object) { return reinterpret_cast<MPI_Request>(static_cast<Object*>(&object)); }
inline MPI_Request encode(pml::Request* object) { return object ? encode(*object) : MPI_REQUEST_NULL; }
inline MPI_Session encode(comm::Session* object) {
  return object ? reinterpret_cast<MPI_Session>(static_cast<Object*>(object)) : MPI_SESSION_NULL;
}
inline MPI_Message encode(pml::Message* object) {
  if (!object) return MPI_MESSAGE_NULL;
  if (object == pml::Lane::no_process()) return MPI_MESSAGE_NO_PROC;
  return reinterpret_cast<MPI_Message>(object);
}

}  // namespace weft::api
