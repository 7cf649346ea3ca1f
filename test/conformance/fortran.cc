// What languages other than C tell and ask: sizes and truth of Fortran's types, handles as integers, statuses in Fortran's shapes.
#include <cstdint>
#include <string>

#include "check.h"

namespace {

int size_of(MPI_Datatype type) {
  int size = -1;
  MPI_Type_size(type, &size);
  return size;
}

void booleans() {
  const int32_t truth = -1, untruth = 0;
  int32_t t = 5, f = 5;
  int64_t wide = 5;
  int set = 5;
  CHECK(MPI_Abi_get_fortran_booleans(4, &t, &f, &set) == MPI_SUCCESS && set == 0);
  CHECK(check::error_class(MPI_Abi_set_fortran_booleans(3, (void*)&truth, (void*)&untruth)) == MPI_ERR_ARG);
  CHECK(check::error_class(MPI_Abi_set_fortran_booleans(4, (void*)&untruth, (void*)&truth)) == MPI_ERR_ABI);  // .FALSE. is not 0
  CHECK(MPI_Abi_set_fortran_booleans(4, (void*)&truth, (void*)&untruth) == MPI_SUCCESS);
  CHECK(MPI_Abi_set_fortran_booleans(4, (void*)&truth, (void*)&untruth) == MPI_ERR_ABI);
  CHECK(MPI_Abi_get_fortran_booleans(4, &t, &f, &set) == MPI_SUCCESS && set == 1 && t == -1 && f == 0);
  CHECK(MPI_Abi_get_fortran_booleans(8, &wide, &wide, &set) == MPI_SUCCESS && set == 0);
  const struct {
    MPI_Op op;
    int32_t wanted[4];
  } cases[] = {{MPI_LAND, {-1, 0, 0, 0}}, {MPI_LOR, {-1, -1, -1, 0}}, {MPI_LXOR, {0, -1, -1, 0}}};
  for (const auto& c : cases) {
    const int32_t in[4] = {-1, -1, 0, 0};
    int32_t inout[4] = {-1, 0, -1, 0}, all[4];
    CHECK(MPI_Reduce_local(in, inout, 4, MPI_LOGICAL, c.op) == MPI_SUCCESS && !memcmp(inout, c.wanted, sizeof inout));
    const int32_t same[4] = {-1, 0, -1, 0};
    CHECK(MPI_Allreduce(same, all, 4, MPI_LOGICAL4, c.op, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int i = 0; i < 4; ++i) CHECK(all[i] == (c.op == MPI_LXOR && check::ranks % 2 == 0 ? 0 : same[i]));
  }
}

/// As a program's start code tells it that was compiled with -i8 -r8.
void sizes() {
  MPI_Info info, got = MPI_INFO_NULL;
  CHECK(MPI_Abi_get_fortran_info(&got) == MPI_SUCCESS && got == MPI_INFO_NULL);
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_integer_size", "5");
  CHECK(check::error_class(MPI_Abi_set_fortran_info(info)) == MPI_ERR_ABI && size_of(MPI_INTEGER) == 4);
  MPI_Info_set(info, "mpi_integer_size", "8");
  MPI_Info_set(info, "mpi_logical_size", "8");
  MPI_Info_set(info, "mpi_real_size", "8");
  MPI_Info_set(info, "mpi_double_precision_size", "16");
  MPI_Info_set(info, "mpi_real2_supported", "maybe");
  CHECK(check::error_class(MPI_Abi_set_fortran_info(info)) == MPI_ERR_ABI && size_of(MPI_INTEGER) == 4);
  for (const char* lacking : {"mpi_real2_supported", "mpi_complex4_supported", "mpi_logical16_supported", "mpi_double_complex_supported"})
    MPI_Info_set(info, lacking, "false");
  MPI_Info_set(info, "mpi_real16_supported", "true");
  CHECK(MPI_Abi_set_fortran_info(info) == MPI_SUCCESS);
  CHECK(MPI_Abi_set_fortran_info(info) == MPI_ERR_ABI);
  MPI_Info_free(&info);
  CHECK(size_of(MPI_INTEGER) == 8 && size_of(MPI_LOGICAL) == 8 && size_of(MPI_REAL) == 8 && size_of(MPI_DOUBLE_PRECISION) == 16);
  CHECK(size_of(MPI_COMPLEX) == 16 && size_of(MPI_REAL16) == 16 && size_of(MPI_2REAL) == 16 && size_of(MPI_2INTEGER) == 16);
  CHECK(size_of(MPI_2DOUBLE_PRECISION) == 32 && size_of(MPI_INTEGER4) == 4 && size_of(MPI_LOGICAL4) == 4 && size_of(MPI_INT) == 4);
  char text[16];
  int length = sizeof text, found = 0;
  CHECK(MPI_Abi_get_fortran_info(&got) == MPI_SUCCESS && got != MPI_INFO_NULL);
  MPI_Info_get_string(got, "mpi_integer_size", &length, text, &found);
  CHECK(found && std::string(text) == "8");
  MPI_Info_free(&got);
}

/// Types that the compiler lacks have no size, and no use.
void lacking() {
  MPI_Datatype made = MPI_INT;
  MPI_Count large = 0;
  for (MPI_Datatype type : {MPI_REAL2, MPI_COMPLEX4, MPI_LOGICAL16, MPI_DOUBLE_COMPLEX}) {
    long double in[2] = {}, out[2] = {};
    CHECK(size_of(type) == MPI_UNDEFINED);
    CHECK(MPI_Type_size_c(type, &large) == MPI_SUCCESS && large == MPI_UNDEFINED);
    CHECK(MPI_Type_size_x(type, &large) == MPI_SUCCESS && large == MPI_UNDEFINED);
    CHECK(check::error_class(MPI_Type_contiguous(2, type, &made)) == MPI_ERR_TYPE);
    CHECK(check::error_class(MPI_Send(in, 1, type, MPI_PROC_NULL, 0, MPI_COMM_SELF)) == MPI_ERR_TYPE);
    CHECK(check::error_class(MPI_Allreduce(in, out, 1, type, MPI_SUM, MPI_COMM_WORLD)) == MPI_ERR_TYPE);
  }
  CHECK(check::error_class(MPI_Type_match_size(MPI_TYPECLASS_REAL, 2, &made)) == MPI_ERR_ARG);
  CHECK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 16, &made) == MPI_SUCCESS && made == MPI_REAL16);
}

/// MPI 5.0, 6.9.2: integers of Fortran's are no truth values.
void refused() {
  int data = 1, result = 0, length = 0;
  char text[MPI_MAX_ERROR_STRING] = "";
  const int error = MPI_Allreduce(&data, &result, 1, MPI_INTEGER, MPI_LAND, MPI_COMM_WORLD);
  CHECK(check::error_class(error) == MPI_ERR_OP);
  MPI_Error_string(error, text, &length);
  CHECK(std::strstr(text, "MPI_LAND") && std::strstr(text, "MPI_INTEGER"));
}

/// Sums, places of extremes and messages of types that have changed.
void use_sizes() {
  const int64_t mine[2] = {int64_t{1} << 40, check::rank};
  int64_t sum[2] = {};
  CHECK(MPI_Allreduce(mine, sum, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
  CHECK(sum[0] == check::ranks * (int64_t{1} << 40) && sum[1] == check::ranks * (check::ranks - 1) / 2);
  const double at[2] = {check::rank == check::ranks - 1 ? 2.5 : 1.5, double(check::rank)};
  double best[2] = {};
  CHECK(MPI_Allreduce(at, best, 1, MPI_2REAL, MPI_MAXLOC, MPI_COMM_WORLD) == MPI_SUCCESS && best[0] == 2.5 && best[1] == check::ranks - 1);
  MPI_Datatype column;
  MPI_Type_vector(2, 1, 2, MPI_INTEGER, &column);
  MPI_Type_commit(&column);
  int64_t cells[4] = {7, 8, 9, 10}, got[2] = {};
  MPI_Sendrecv(cells, 1, column, 0, 1, got, 2, MPI_INTEGER8, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  CHECK(size_of(column) == 16 && got[0] == 7 && got[1] == 9);
  MPI_Type_free(&column);
}

/// A handle is the same after a way through an integer; predefined ones are their own constants.
template <class Handle>
void there_and_back(Handle handle, int (*to)(Handle), Handle (*from)(int)) {
  const int number = to(handle);
  CHECK(to(handle) == number && from(number) == handle);
  const auto value = reinterpret_cast<uintptr_t>(handle);
  CHECK(value < 4096 ? number == static_cast<int>(value) : number >= 4096);
}

void ignore(MPI_Comm*, int*, ...) {}

void handles() {
  MPI_Comm comm;
  MPI_Datatype type;
  MPI_Group group;
  MPI_Info info;
  MPI_Op op;
  MPI_Request request;
  MPI_Message message;
  MPI_Errhandler handler;
  int data = 3;
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Type_contiguous(3, MPI_INT, &type);
  MPI_Comm_group(comm, &group);
  MPI_Info_create(&info);
  MPI_Op_create([](void*, void*, int*, MPI_Datatype*) {}, 1, &op);
  MPI_Comm_create_errhandler(ignore, &handler);
  MPI_Isend(&data, 1, MPI_INT, 0, 1, comm, &request);
  MPI_Mprobe(0, 1, comm, &message, MPI_STATUS_IGNORE);
  for (MPI_Comm c : {comm, MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL}) there_and_back(c, MPI_Comm_toint, MPI_Comm_fromint);
  for (MPI_Datatype t : {type, MPI_INT, MPI_INTEGER, MPI_DATATYPE_NULL}) there_and_back(t, MPI_Type_toint, MPI_Type_fromint);
  for (MPI_Group g : {group, MPI_GROUP_EMPTY, MPI_GROUP_NULL}) there_and_back(g, MPI_Group_toint, MPI_Group_fromint);
  for (MPI_Info i : {info, MPI_INFO_ENV, MPI_INFO_NULL}) there_and_back(i, MPI_Info_toint, MPI_Info_fromint);
  for (MPI_Op o : {op, MPI_SUM, MPI_OP_NULL}) there_and_back(o, MPI_Op_toint, MPI_Op_fromint);
  for (MPI_Request r : {request, MPI_REQUEST_NULL}) there_and_back(r, MPI_Request_toint, MPI_Request_fromint);
  for (MPI_Message m : {message, MPI_MESSAGE_NO_PROC, MPI_MESSAGE_NULL}) there_and_back(m, MPI_Message_toint, MPI_Message_fromint);
  for (MPI_Errhandler e : {handler, MPI_ERRORS_RETURN, MPI_ERRHANDLER_NULL})
    there_and_back(e, MPI_Errhandler_toint, MPI_Errhandler_fromint);
  there_and_back<MPI_Session>(MPI_SESSION_NULL, MPI_Session_toint, MPI_Session_fromint);
  there_and_back<MPI_File>(MPI_FILE_NULL, MPI_File_toint, MPI_File_fromint);
  there_and_back<MPI_Win>(MPI_WIN_NULL, MPI_Win_toint, MPI_Win_fromint);
  MPI_Mrecv(&data, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&comm);
  MPI_Type_free(&type);
  MPI_Group_free(&group);
  MPI_Info_free(&info);
  MPI_Op_free(&op);
  MPI_Errhandler_free(&handler);
}

/// Through all shapes, a status tells the same.
void statuses() {
  int data[3] = {1, 2, 3}, count = 0, flag = 1;
  MPI_Request request;
  MPI_Isend(data, 3, MPI_INT, 0, 77, MPI_COMM_SELF, &request);
  MPI_Status status, back;
  MPI_Recv(data, 3, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &status);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Fint fortran[MPI_F_STATUS_SIZE];
  MPI_F08_status f08;
  CHECK(MPI_Status_c2f(&status, fortran) == MPI_SUCCESS && fortran[MPI_F_SOURCE] == 0 && fortran[MPI_F_TAG] == 77);
  CHECK(MPI_Status_f2f08(fortran, &f08) == MPI_SUCCESS && f08.MPI_TAG == 77);
  CHECK(MPI_Status_f082f(&f08, fortran) == MPI_SUCCESS && MPI_Status_f2c(fortran, &back) == MPI_SUCCESS);
  MPI_Get_count(&back, MPI_INT, &count);
  MPI_Test_cancelled(&back, &flag);
  CHECK(back.MPI_SOURCE == 0 && back.MPI_TAG == 77 && count == 3 && !flag);
  CHECK(MPI_Status_c2f08(&status, &f08) == MPI_SUCCESS && MPI_Status_f082c(&f08, &back) == MPI_SUCCESS);
  MPI_Get_count(&back, MPI_INT, &count);
  CHECK(back.MPI_TAG == 77 && count == 3);
}

}  // namespace

int main(int argc, char** argv) {
  check::begin(argc, argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  handles();
  statuses();
  booleans();
  sizes();
  use_sizes();
  lacking();
  refused();
  return check::end("fortran");
}
