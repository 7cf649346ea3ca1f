// Handles as integers (for Fortran and for other languages' tables), statuses in Fortran's shape, and what the ABI's user of
// Fortran told us about its logicals.

#include <algorithm>
#include <charconv>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "api/generated/bodies.h"
#include "runtime/op/op.h"
#include "runtime/type/predefined.h"

namespace weft::body {
namespace {

/// Pointers to numbers from 4096 on; predefined handles are their own numbers. A handle keeps its number for ever, so that
/// converting twice gives the same; the memory of freed objects is used again, and their numbers with it.
class Numbers {
 public:
  int number(uintptr_t handle) {
    if (handle < api::kPredefinedEnd) return static_cast<int>(handle);
    std::lock_guard hold(lock_);
    auto [at, fresh] = numbers_.try_emplace(handle, static_cast<int>(api::kPredefinedEnd + handles_.size()));
    if (fresh) handles_.push_back(handle);
    return at->second;
  }
  /// The null pointer, which is no handle, for a number that was never given.
  uintptr_t handle(int number) {
    if (number < 0) return 0;
    if (static_cast<uintptr_t>(number) < api::kPredefinedEnd) return static_cast<uintptr_t>(number);
    std::lock_guard hold(lock_);
    const size_t index = static_cast<size_t>(number) - api::kPredefinedEnd;
    return index < handles_.size() ? handles_[index] : 0;
  }

 private:
  std::mutex lock_;
  std::unordered_map<uintptr_t, int> numbers_;
  std::vector<uintptr_t> handles_;
};

Numbers& numbers() {
  static auto* all = new Numbers;
  return *all;
}

/// Fortran's logicals as MPI_Abi_set_fortran_booleans gave them.
struct FortranBooleans {
  std::mutex lock;
  int size = 0;  // 0: not set
  unsigned char true_value[16], false_value[16];
};
FortranBooleans booleans;
comm::Info* fortran_info;

/// The value of a key of Fortran's info; 0 if it has none, -1 if it is no number.
int size_in(const comm::Info& info, const char* key) {
  const std::string* text = info.find(key);
  if (!text) return 0;
  int size = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), size);
  return error == std::errc() && end == text->data() + text->size() && size > 0 ? size : -1;
}

/// Which optional types a program's Fortran lacks; false if info says neither true nor false of one.
bool lacking_in(const comm::Info& info, std::vector<const type::FortranOption*>& lacking) {
  for (const type::FortranOption& option : type::fortran_options()) {
    const std::string* answer = info.find(("mpi_" + std::string(option.name) + "_supported").c_str());
    if (answer && *answer == "false") lacking.push_back(&option);
    if (answer && *answer != "false" && *answer != "true") return false;
  }
  return true;
}

bool good_logical_size(int size) { return size == 1 || size == 2 || size == 4 || size == 8 || size == 16; }

}  // namespace

#define WEFT_CONVERT(Name, Handle)                                                \
  int Name##_toint(Handle handle) { return numbers().number(api::bits(handle)); } \
  Handle Name##_fromint(int number) { return reinterpret_cast<Handle>(numbers().handle(number)); }

WEFT_CONVERT(Comm, MPI_Comm)
WEFT_CONVERT(Errhandler, MPI_Errhandler)
WEFT_CONVERT(File, MPI_File)
WEFT_CONVERT(Group, MPI_Group)
WEFT_CONVERT(Info, MPI_Info)
WEFT_CONVERT(Message, MPI_Message)
WEFT_CONVERT(Op, MPI_Op)
WEFT_CONVERT(Request, MPI_Request)
WEFT_CONVERT(Session, MPI_Session)
WEFT_CONVERT(Type, MPI_Datatype)
WEFT_CONVERT(Win, MPI_Win)
#undef WEFT_CONVERT

int Abi_set_fortran_booleans(int logical_size, void* logical_true, void* logical_false) {
  if (!good_logical_size(logical_size))
    return fail(MPI_ERR_ARG, "logical_size is %d, but a logical has 1, 2, 4, 8 or 16 bytes", logical_size);
  if (!logical_true || !logical_false) return fail(MPI_ERR_ARG, "logical_true or logical_false is a null pointer");
  std::lock_guard hold(booleans.lock);
  if (booleans.size) return fail(MPI_ERR_ABI, "Fortran's logicals were set already, and cannot be set twice");
  const auto* zero = static_cast<const unsigned char*>(logical_false);
  if (std::any_of(zero, zero + logical_size, [](unsigned char byte) { return byte != 0; }))
    return fail(MPI_ERR_ABI, "logical_false is not 0; logicals whose .FALSE. is another value are not supported");
  op::set_fortran_truth(logical_size, logical_true);
  booleans.size = logical_size;
  memcpy(booleans.true_value, logical_true, static_cast<size_t>(logical_size));
  memcpy(booleans.false_value, logical_false, static_cast<size_t>(logical_size));
  return MPI_SUCCESS;
}

int Abi_get_fortran_booleans(int logical_size, void* logical_true, void* logical_false, int* is_set) {
  if (!good_logical_size(logical_size))
    return fail(MPI_ERR_ARG, "logical_size is %d, but a logical has 1, 2, 4, 8 or 16 bytes", logical_size);
  if (!logical_true || !logical_false) return fail(MPI_ERR_ARG, "logical_true or logical_false is a null pointer");
  std::lock_guard hold(booleans.lock);
  *is_set = booleans.size == logical_size;
  if (*is_set) {
    memcpy(logical_true, booleans.true_value, static_cast<size_t>(logical_size));
    memcpy(logical_false, booleans.false_value, static_cast<size_t>(logical_size));
  }
  return MPI_SUCCESS;
}

int Abi_set_fortran_info(comm::Info* info) {
  std::lock_guard hold(booleans.lock);
  if (fortran_info) return fail(MPI_ERR_ABI, "the info of Fortran was set already, and cannot be set twice");
  if (!info) return fail(MPI_ERR_INFO, "info is MPI_INFO_NULL");
  const type::FortranSizes sizes{size_in(*info, "mpi_logical_size"), size_in(*info, "mpi_integer_size"), size_in(*info, "mpi_real_size"),
                                 size_in(*info, "mpi_double_precision_size")};
  std::vector<const type::FortranOption*> lacking;
  if (!lacking_in(*info, lacking))
    return fail(MPI_ERR_ABI, "info says of a type neither that it is supported (true) nor that it is not (false)");
  if (!type::set_fortran_sizes(sizes))
    return fail(MPI_ERR_ABI, "info names a size that no kind of Fortran has; logicals and integers have 1 to 16 bytes, reals 2 to 16");
  for (const type::FortranOption* option : lacking) type::set_lacking(*option);
  fortran_info = comm::Info::make();
  fortran_info->entries = info->entries;
  return MPI_SUCCESS;
}

int Abi_get_fortran_info(MPI_Info* info) {
  std::lock_guard hold(booleans.lock);
  *info = MPI_INFO_NULL;
  if (!fortran_info) return MPI_SUCCESS;
  comm::Info* copy = comm::Info::make();
  copy->entries = fortran_info->entries;
  *info = api::encode(copy);
  return MPI_SUCCESS;
}

}  // namespace weft::body

// The functions of older Fortran interfaces. In C, mpi.h maps the conversions of handles to the standard ABI's; these are for
// programs that look for the symbols.
#define WEFT_EXPORT(name) extern "C" [[gnu::weak, gnu::alias("P" #name), gnu::visibility("default")]] decltype(P##name) name
#define WEFT_FORTRAN(Name, Handle)                                                                                                   \
  extern "C" [[gnu::visibility("default")]] MPI_Fint PMPI_##Name##_c2f(Handle handle) { return weft::body::Name##_toint(handle); }   \
  extern "C" [[gnu::visibility("default")]] Handle PMPI_##Name##_f2c(MPI_Fint number) { return weft::body::Name##_fromint(number); } \
  WEFT_EXPORT(MPI_##Name##_c2f);                                                                                                     \
  WEFT_EXPORT(MPI_##Name##_f2c);

#undef MPI_Comm_c2f
#undef MPI_Comm_f2c
#undef MPI_Errhandler_c2f
#undef MPI_Errhandler_f2c
#undef MPI_File_c2f
#undef MPI_File_f2c
#undef MPI_Group_c2f
#undef MPI_Group_f2c
#undef MPI_Info_c2f
#undef MPI_Info_f2c
#undef MPI_Message_c2f
#undef MPI_Message_f2c
#undef MPI_Op_c2f
#undef MPI_Op_f2c
#undef MPI_Request_c2f
#undef MPI_Request_f2c
#undef MPI_Session_c2f
#undef MPI_Session_f2c
#undef MPI_Type_c2f
#undef MPI_Type_f2c
#undef MPI_Win_c2f
#undef MPI_Win_f2c

WEFT_FORTRAN(Comm, MPI_Comm)
WEFT_FORTRAN(Errhandler, MPI_Errhandler)
WEFT_FORTRAN(File, MPI_File)
WEFT_FORTRAN(Group, MPI_Group)
WEFT_FORTRAN(Info, MPI_Info)
WEFT_FORTRAN(Message, MPI_Message)
WEFT_FORTRAN(Op, MPI_Op)
WEFT_FORTRAN(Request, MPI_Request)
WEFT_FORTRAN(Session, MPI_Session)
WEFT_FORTRAN(Type, MPI_Datatype)
WEFT_FORTRAN(Win, MPI_Win)

// C's status, mpi_f08's and the integer array of the older interfaces are the same eight words.
static_assert(sizeof(MPI_Status) == MPI_F_STATUS_SIZE * sizeof(MPI_Fint) && sizeof(MPI_F08_status) == sizeof(MPI_Status));

namespace {
int copy_status(const char* function, const void* from, void* to, const char* from_name, const char* to_name) {
  if (!from) return weft::api::err::null(function, nullptr, from_name);
  if (!to) return weft::api::err::null(function, nullptr, to_name);
  memcpy(to, from, sizeof(MPI_Status));
  return MPI_SUCCESS;
}
}  // namespace

#define WEFT_STATUS(name, From, from, To, to)                                                                                          \
  extern "C" [[gnu::visibility("default")]] int P##name(const From* from, To* to) { return copy_status(#name, from, to, #from, #to); } \
  WEFT_EXPORT(name);

WEFT_STATUS(MPI_Status_c2f, MPI_Status, c_status, MPI_Fint, f_status)
WEFT_STATUS(MPI_Status_f2c, MPI_Fint, f_status, MPI_Status, c_status)
WEFT_STATUS(MPI_Status_c2f08, MPI_Status, c_status, MPI_F08_status, f08_status)
WEFT_STATUS(MPI_Status_f082c, MPI_F08_status, f08_status, MPI_Status, c_status)
WEFT_STATUS(MPI_Status_f082f, MPI_F08_status, f08_status, MPI_Fint, f_status)
WEFT_STATUS(MPI_Status_f2f08, MPI_Fint, f_status, MPI_F08_status, f08_status)
