// Small calls whose results are values: fields of statuses, handles as integers, error classes that come and go, pairs of a value and
// an index, and operations on copies of predefined types.
#include <climits>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>

#include "check.h"

namespace {

void statuses() {
  MPI_Status status;
  int value = 0;
  MPI_Status_set_source(&status, 7);
  MPI_Status_set_tag(&status, INT_MAX);
  MPI_Status_set_error(&status, MPI_ERR_TRUNCATE);
  CHECK(status.MPI_SOURCE == 7 && status.MPI_TAG == INT_MAX && status.MPI_ERROR == MPI_ERR_TRUNCATE);
  status.MPI_SOURCE = 3;
  status.MPI_TAG = 4;
  status.MPI_ERROR = MPI_SUCCESS;
  CHECK(MPI_Status_get_source(&status, &value) == MPI_SUCCESS && value == 3);
  CHECK(MPI_Status_get_tag(&status, &value) == MPI_SUCCESS && value == 4);
  CHECK(MPI_Status_get_error(&status, &value) == MPI_SUCCESS && value == MPI_SUCCESS);
  for (int cancelled : {1, 0}) {
    MPI_Status_set_cancelled(&status, cancelled);
    MPI_Test_cancelled(&status, &value);
    CHECK(value == cancelled);
  }
  const MPI_Count many = MPI_Count{3} << 40;
  MPI_Count count = 0;
  for (MPI_Count elements : {MPI_Count{0}, MPI_Count{5}, many}) {
    MPI_Status_set_elements_c(&status, MPI_DOUBLE, elements);
    MPI_Get_elements_c(&status, MPI_DOUBLE, &count);
    CHECK(count == elements);
    MPI_Get_count(&status, MPI_DOUBLE, &value);
    CHECK(value == (elements > INT_MAX ? MPI_UNDEFINED : int(elements)));
    CHECK(status.MPI_SOURCE == 3 && status.MPI_TAG == 4);
  }
}

/// To an integer and back; predefined handles are the same number for everybody.
void integers() {
  MPI_Group group;
  MPI_Info info;
  MPI_Datatype type;
  MPI_Request request;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  MPI_Info_create(&info);
  MPI_Type_contiguous(3, MPI_INT, &type);
  MPI_Recv_init(nullptr, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
  CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
  CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_NULL)) == MPI_COMM_NULL);
  CHECK(MPI_Group_fromint(MPI_Group_toint(group)) == group);
  CHECK(MPI_Info_fromint(MPI_Info_toint(info)) == info);
  CHECK(MPI_Type_fromint(MPI_Type_toint(type)) == type);
  CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_DOUBLE)) == MPI_DOUBLE);
  CHECK(MPI_Op_fromint(MPI_Op_toint(MPI_SUM)) == MPI_SUM);
  CHECK(MPI_Request_fromint(MPI_Request_toint(request)) == request);
  CHECK(MPI_Errhandler_fromint(MPI_Errhandler_toint(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
  CHECK(MPI_Message_fromint(MPI_Message_toint(MPI_MESSAGE_NO_PROC)) == MPI_MESSAGE_NO_PROC);
  CHECK(MPI_Session_fromint(MPI_Session_toint(MPI_SESSION_NULL)) == MPI_SESSION_NULL);
  CHECK(MPI_Comm_toint(MPI_COMM_WORLD) == int(intptr_t(MPI_COMM_WORLD)) && MPI_Op_toint(MPI_SUM) == int(intptr_t(MPI_SUM)));
  CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_SELF)) == MPI_COMM_SELF && MPI_Type_f2c(MPI_Type_c2f(type)) == type);
  MPI_Request_free(&request);
  MPI_Type_free(&type);
  MPI_Info_free(&info);
  MPI_Group_free(&group);
}

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}

int last_used_code() {
  int* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &found);
  return found ? *value : -1;
}

/// What is added can be removed, from the end and not while it is in use, and never what MPI has itself.
void errors() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  int kind = 0, code = 0, got = 0;
  CHECK(MPI_Add_error_class(&kind) == MPI_SUCCESS && kind > MPI_ERR_LASTCODE && last_used_code() == kind);
  CHECK(MPI_Add_error_code(kind, &code) == MPI_SUCCESS && code > kind && last_used_code() == code);
  MPI_Error_class(code, &got);
  CHECK(got == kind);
  MPI_Add_error_string(kind, "a kind");
  MPI_Add_error_string(code, "a code");
  CHECK(text_of(kind) == "a kind" && text_of(code) == "a code");
  CHECK(MPI_Remove_error_class(kind) != MPI_SUCCESS);  // it has a code
  CHECK(MPI_Remove_error_string(code) == MPI_SUCCESS && text_of(code) == "");
  CHECK(MPI_Remove_error_code(code) == MPI_SUCCESS && text_of(kind) == "a kind");
  CHECK(MPI_Remove_error_code(code) != MPI_SUCCESS);
  MPI_Remove_error_string(kind);
  CHECK(MPI_Remove_error_class(kind) == MPI_SUCCESS && last_used_code() == code);  // it changes with what is added only
  CHECK(MPI_Remove_error_class(MPI_ERR_TAG) != MPI_SUCCESS && MPI_Remove_error_code(MPI_ERR_TAG) != MPI_SUCCESS);
  CHECK(MPI_Remove_error_string(MPI_ERR_TAG) != MPI_SUCCESS && text_of(MPI_ERR_TAG) != "");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

template <class Value, class Index>
struct Pair {
  Value value;
  Index index;
};

/// MINLOC and MAXLOC over the ranks, on the pair type of these two.
template <class Value, class Index>
void pairs(MPI_Datatype value, MPI_Datatype index, MPI_Datatype named = MPI_DATATYPE_NULL) {
  using Both = Pair<Value, Index>;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  CHECK(MPI_Type_get_value_index(value, index, &type) == MPI_SUCCESS);
  CHECK(named == MPI_DATATYPE_NULL || type == named);
  if (type == MPI_DATATYPE_NULL) return;  // an optional one
  MPI_Aint lower = -1, extent = 0;
  MPI_Type_get_extent(type, &lower, &extent);
  CHECK(lower == 0 && extent == MPI_Aint(sizeof(Both)));
  std::vector<Both> in(3), least(3), most(3);
  for (int i = 0; i < 3; ++i) in[size_t(i)] = {Value(i == 2 ? 5 : (check::rank + i) % check::ranks), Index(check::rank + 1)};
  MPI_Allreduce(in.data(), least.data(), 3, type, MPI_MINLOC, MPI_COMM_WORLD);
  MPI_Allreduce(in.data(), most.data(), 3, type, MPI_MAXLOC, MPI_COMM_WORLD);
  for (int i = 0; i < 2; ++i) {
    const int of_least = (check::ranks - i % check::ranks) % check::ranks, of_most = (2 * check::ranks - 1 - i) % check::ranks;
    CHECK(least[size_t(i)].value == Value(0) && least[size_t(i)].index == Index(of_least + 1));
    CHECK(most[size_t(i)].value == Value(check::ranks - 1) && most[size_t(i)].index == Index(of_most + 1));
  }
  CHECK(least[2].index == Index(1) && most[2].index == Index(1));  // of equal values the least index
}

void all_pairs() {
  pairs<float, int>(MPI_FLOAT, MPI_INT, MPI_FLOAT_INT);
  pairs<double, int>(MPI_DOUBLE, MPI_INT, MPI_DOUBLE_INT);
  pairs<long, int>(MPI_LONG, MPI_INT, MPI_LONG_INT);
  pairs<int, int>(MPI_INT, MPI_INT, MPI_2INT);
  pairs<short, int>(MPI_SHORT, MPI_INT, MPI_SHORT_INT);
  pairs<long double, int>(MPI_LONG_DOUBLE, MPI_INT, MPI_LONG_DOUBLE_INT);
  pairs<double, int64_t>(MPI_DOUBLE, MPI_INT64_T);
  pairs<float, int64_t>(MPI_FLOAT, MPI_INT64_T);
  pairs<int64_t, int64_t>(MPI_INT64_T, MPI_INT64_T);
  pairs<uint8_t, uint64_t>(MPI_UINT8_T, MPI_UINT64_T);
  pairs<uint16_t, long long>(MPI_UINT16_T, MPI_LONG_LONG);
  pairs<double, MPI_Aint>(MPI_DOUBLE, MPI_AINT);
  MPI_Datatype type = MPI_INT;
  CHECK(MPI_Type_get_value_index(MPI_C_DOUBLE_COMPLEX, MPI_INT, &type) == MPI_SUCCESS && type == MPI_DATATYPE_NULL);
}

/// Copies of predefined types are as good as these.
void copies() {
  MPI_Datatype number, pair;
  MPI_Type_dup(MPI_DOUBLE, &number);
  MPI_Datatype once;
  MPI_Type_dup(MPI_SHORT_INT, &once);  // it has a gap
  MPI_Type_dup(once, &pair);
  MPI_Type_free(&once);
  const double in[2] = {1.5, double(check::rank)};
  double out[2] = {0, 0}, local[2] = {1, 2};
  CHECK(MPI_Allreduce(in, out, 2, number, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
  CHECK(out[0] == 1.5 * check::ranks && out[1] == check::ranks * (check::ranks - 1) / 2);
  CHECK(MPI_Reduce_local(in, local, 2, number, MPI_MAX) == MPI_SUCCESS && local[0] == 1.5 &&
        local[1] == (check::rank > 2 ? check::rank : 2));
  const Pair<short, int> mine[2] = {{short(-check::rank), check::rank}, {3, check::rank}};
  Pair<short, int> least[2] = {};
  CHECK(MPI_Allreduce(mine, least, 2, pair, MPI_MINLOC, MPI_COMM_WORLD) == MPI_SUCCESS);
  CHECK(least[0].value == 1 - check::ranks && least[0].index == check::ranks - 1 && least[1].value == 3 && least[1].index == 0);
  MPI_Datatype two;  // of which nothing is predefined
  MPI_Type_contiguous(2, MPI_DOUBLE, &two);
  MPI_Type_commit(&two);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  CHECK(check::error_class(MPI_Allreduce(in, out, 1, two, MPI_SUM, MPI_COMM_WORLD)) == MPI_ERR_OP);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Type_free(&two);
  MPI_Type_free(&number);
  MPI_Type_free(&pair);
}

}  // namespace

int main(int argc, char** argv) {
  check::begin(argc, argv);
  for (int level : {0, 1, 2, 77}) CHECK(MPI_Pcontrol(level, "more", 1.0) == MPI_SUCCESS);
  statuses();
  integers();
  errors();
  all_pairs();
  copies();
  return check::end("values");
}
