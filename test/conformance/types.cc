// Derived datatypes between ranks: what one layout sends another receives; packing, envelopes, external32, large counts.
#include <cstddef>
#include <string>

#include "check.h"

using check::rank;
using check::ranks;

namespace {

int right() { return (rank + 1) % ranks; }
int left() { return (rank + ranks - 1) % ranks; }

/// Sends `count` of `type` around the ring and receives the same signature as contiguous ints; all ranks compare.
void ring(MPI_Datatype type, int count, const std::vector<int>& memory, const std::vector<int>& expected) {
  std::vector<int> in(expected.size(), -1);
  MPI_Status status;
  MPI_Sendrecv(memory.data(), count, type, right(), 1, in.data(), int(in.size()), MPI_INT, left(), 1, MPI_COMM_WORLD, &status);
  CHECK(in == expected);
  int elements = -1;
  MPI_Get_elements(&status, type, &elements);
  CHECK(elements == int(expected.size()));
  // And back: contiguous into the layout; what lies between stays.
  std::vector<int> back(memory.size(), -1);
  MPI_Sendrecv(expected.data(), int(expected.size()), MPI_INT, right(), 2, back.data(), count, type, left(), 2, MPI_COMM_WORLD, &status);
  std::vector<int> again(expected.size(), -2);
  int position = 0;
  MPI_Pack(back.data(), count, type, again.data(), int(again.size() * sizeof(int)), &position, MPI_COMM_SELF);
  CHECK(again == expected && position == int(expected.size() * sizeof(int)));
  size_t untouched = 0;
  for (int v : back) untouched += v == -1;
  CHECK(untouched >= memory.size() - expected.size());
}

void vectors() {
  for (int n : {5, 300, 30000}) {
    MPI_Datatype type;
    MPI_Type_vector(n, 2, 5, MPI_INT, &type);
    MPI_Type_commit(&type);
    std::vector<int> memory(size_t(n) * 5), expected;
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = int(i);
    for (int i = 0; i < n; ++i) expected.insert(expected.end(), {5 * i, 5 * i + 1});
    ring(type, 1, memory, expected);
    MPI_Type_free(&type);
    CHECK(type == MPI_DATATYPE_NULL);
  }
}

void indexed_and_resized() {
  const int lengths[] = {2, 0, 1, 3}, places[] = {7, 100, 1, 10};
  MPI_Datatype inner, type;
  MPI_Type_indexed(4, lengths, places, MPI_INT, &inner);
  MPI_Type_create_resized(inner, 0, 20 * sizeof(int), &type);
  MPI_Type_commit(&type);
  MPI_Aint lower, extent;
  MPI_Type_get_true_extent(type, &lower, &extent);
  CHECK(lower == sizeof(int) && extent == 12 * sizeof(int));
  MPI_Type_get_extent(type, &lower, &extent);
  CHECK(lower == 0 && extent == 20 * sizeof(int));
  std::vector<int> memory(60), expected;
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = int(i) * 3;
  for (int e = 0; e < 3; ++e)
    for (int i : {7, 8, 1, 10, 11, 12}) expected.push_back((20 * e + i) * 3);
  ring(type, 3, memory, expected);
  MPI_Type_free(&inner);
  MPI_Type_free(&type);
}

void subarray_and_darray() {
  const int sizes[] = {6, 7, 8}, part[] = {2, 3, 4}, start[] = {1, 2, 3};
  MPI_Datatype type;
  MPI_Type_create_subarray(3, sizes, part, start, MPI_ORDER_C, MPI_INT, &type);
  MPI_Type_commit(&type);
  std::vector<int> memory(6 * 7 * 8), expected;
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = int(i);
  for (int i = 1; i < 3; ++i)
    for (int j = 2; j < 5; ++j)
      for (int k = 3; k < 7; ++k) expected.push_back((i * 7 + j) * 8 + k);
  ring(type, 1, memory, expected);
  MPI_Type_free(&type);

  const int global[] = {9, 10}, kinds[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, arguments[] = {2, MPI_DISTRIBUTE_DFLT_DARG},
            grid[] = {2, 2};
  size_t covered = 0;
  for (int process = 0; process < 4; ++process) {
    MPI_Type_create_darray(4, process, 2, global, kinds, arguments, grid, MPI_ORDER_C, MPI_INT, &type);
    MPI_Type_commit(&type);
    int bytes = 0;
    MPI_Type_size(type, &bytes);
    MPI_Aint lower, extent;
    MPI_Type_get_extent(type, &lower, &extent);
    CHECK(extent == 90 * sizeof(int));
    std::vector<int> all(90), mine(size_t(bytes) / sizeof(int));
    for (int i = 0; i < 90; ++i) all[size_t(i)] = i;
    int position = 0;
    MPI_Pack(all.data(), 1, type, mine.data(), bytes, &position, MPI_COMM_SELF);
    size_t at = 0;
    for (int i = 0; i < 9; ++i)
      for (int j = 0; j < 10; ++j)
        if (i / 2 % 2 == process / 2 && j / 5 == process % 2) CHECK(at < mine.size() && mine[at++] == i * 10 + j);
    CHECK(at == mine.size());
    covered += at;
    MPI_Type_free(&type);
  }
  CHECK(covered == 90);
}

struct Particle {
  char kind;
  double place[3];
  int charge;
};

void structs() {
  const int lengths[] = {1, 3, 1};
  const MPI_Aint places[] = {offsetof(Particle, kind), offsetof(Particle, place), offsetof(Particle, charge)};
  const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
  MPI_Datatype loose, type;
  MPI_Type_create_struct(3, lengths, places, types, &loose);
  MPI_Type_create_resized(loose, 0, sizeof(Particle), &type);
  MPI_Type_commit(&type);
  std::vector<Particle> out(1000), in(1000);
  for (int i = 0; i < 1000; ++i) out[size_t(i)] = {char(i), {i + 0.5, rank * 1.0, -i * 2.0}, i * rank};
  MPI_Sendrecv(out.data(), 1000, type, right(), 3, in.data(), 1000, type, left(), 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < 1000; ++i) {
    const Particle& p = in[size_t(i)];
    CHECK(p.kind == char(i) && p.place[0] == i + 0.5 && p.place[1] == left() && p.place[2] == -i * 2.0 && p.charge == i * left());
  }
  int integers, addresses, datatypes, combiner;
  MPI_Type_get_envelope(type, &integers, &addresses, &datatypes, &combiner);
  CHECK(combiner == MPI_COMBINER_RESIZED && integers == 0 && addresses == 2 && datatypes == 1);
  MPI_Datatype old;
  MPI_Aint bounds[2];
  int none;
  MPI_Type_get_contents(type, 0, 2, 1, &none, bounds, &old);
  CHECK(bounds[0] == 0 && bounds[1] == sizeof(Particle));
  MPI_Type_get_envelope(old, &integers, &addresses, &datatypes, &combiner);
  CHECK(combiner == MPI_COMBINER_STRUCT && integers == 4 && addresses == 3 && datatypes == 3);
  MPI_Type_free(&old);
  MPI_Type_free(&loose);
  MPI_Type_free(&type);
}

void partial_elements() {
  MPI_Datatype pair;
  MPI_Type_contiguous(3, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  int out[7] = {1, 2, 3, 4, 5, 6, 7}, in[9] = {}, count = 0, elements = 0;
  MPI_Status status;
  MPI_Sendrecv(out, 7, MPI_INT, right(), 4, in, 3, pair, left(), 4, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, pair, &count);
  MPI_Get_elements(&status, pair, &elements);
  CHECK(count == MPI_UNDEFINED && elements == 7 && in[6] == 7);
  MPI_Type_free(&pair);
}

void external() {
  const int values[3] = {1, -2, 0x01020304};
  unsigned char bytes[12];
  MPI_Aint position = 0, size = 0;
  MPI_Pack_external_size("external32", 3, MPI_INT, &size);
  CHECK(size == 12);
  MPI_Pack_external("external32", values, 3, MPI_INT, bytes, 12, &position);
  const unsigned char expected[12] = {0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe, 1, 2, 3, 4};
  CHECK(!std::memcmp(bytes, expected, 12) && position == 12);
  int back[3];
  position = 0;
  MPI_Unpack_external("external32", bytes, 12, &position, back, 3, MPI_INT);
  CHECK(!std::memcmp(back, values, 12));
}

std::string name_of(MPI_Datatype type) {
  char name[MPI_MAX_OBJECT_NAME];
  int length = 0;
  MPI_Type_get_name(type, name, &length);
  return name;
}

void names() {
  CHECK(name_of(MPI_DOUBLE) == "MPI_DOUBLE" && name_of(MPI_2INT) == "MPI_2INT");
  // Of two names for one type the first, not the synonym (MPI 5.0, 3.2.2).
  CHECK(name_of(MPI_LONG_LONG) == "MPI_LONG_LONG_INT" && name_of(MPI_C_FLOAT_COMPLEX) == "MPI_C_COMPLEX");
  MPI_Datatype copy;
  MPI_Type_dup(MPI_INT, &copy);
  CHECK(name_of(copy).empty());
  MPI_Type_free(&copy);
}

/// A type made by a large-count call can be taken apart by large-count calls only: the others have no room for what was said.
void large_envelopes() {
  MPI_Datatype type;
  MPI_Type_vector_c(3, 2, 5, MPI_INT, &type);
  MPI_Count large[4] = {-1, -1, -1, -1};
  int small[3], combiner = 0;
  CHECK(MPI_Type_get_envelope_c(type, &large[0], &large[1], &large[2], &large[3], &combiner) == MPI_SUCCESS);
  CHECK(large[0] == 0 && large[1] == 0 && large[2] == 3 && large[3] == 1 && combiner == MPI_COMBINER_VECTOR);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  CHECK(check::error_class(MPI_Type_get_envelope(type, &small[0], &small[1], &small[2], &combiner)) == MPI_ERR_TYPE);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  MPI_Type_free(&type);
}

void large_counts() {
  MPI_Datatype huge;
  MPI_Type_contiguous_c(MPI_Count(1) << 40, MPI_INT, &huge);
  MPI_Count size = 0;
  MPI_Type_size_c(huge, &size);
  CHECK(size == MPI_Count(4) << 40);
  int narrow = 0;
  MPI_Type_size(huge, &narrow);
  CHECK(narrow == MPI_UNDEFINED);
  MPI_Type_free(&huge);
  int value = rank, got = -1;
  MPI_Sendrecv_c(&value, MPI_Count(1), MPI_INT, right(), 5, &got, MPI_Count(1), MPI_INT, left(), 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(got == left());
}

void absolute_addresses() {
  int a = rank + 1, b = rank + 2, got[2] = {};
  MPI_Aint places[2];
  MPI_Get_address(&a, &places[0]);
  MPI_Get_address(&b, &places[1]);
  const int lengths[] = {1, 1};
  const MPI_Datatype types[] = {MPI_INT, MPI_INT};
  MPI_Datatype type;
  MPI_Type_create_struct(2, lengths, places, types, &type);
  MPI_Type_commit(&type);
  MPI_Sendrecv(MPI_BOTTOM, 1, type, right(), 6, got, 2, MPI_INT, left(), 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(got[0] == left() + 1 && got[1] == left() + 2);
  MPI_Type_free(&type);
}

}  // namespace

int main(int argc, char** argv) {
  check::begin(argc, argv);
  vectors();
  indexed_and_resized();
  subarray_and_darray();
  structs();
  partial_elements();
  external();
  large_counts();
  large_envelopes();
  names();
  absolute_addresses();
  return check::end("types");
}
