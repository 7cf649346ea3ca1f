// external32: golden bytes and round trips.
#include "runtime/type/external.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <cstring>

#include "test/unit/type/model.h"

using namespace weft;
using namespace weft::type;

namespace {

Datatype& of_handle(MPI_Datatype handle) { return *predefined(reinterpret_cast<uintptr_t>(handle)); }

template <class T>
std::vector<uint8_t> packed(MPI_Datatype handle, std::vector<T> values) {
  std::vector<uint8_t> out(external_size(of_handle(handle), values.size()));
  REQUIRE(pack_external(of_handle(handle), values.size(), values.data(), out.data()));
  std::vector<T> back(values.size());
  unpack_external(of_handle(handle), values.size(), out.data(), back.data());
  for (size_t i = 0; i < values.size(); ++i) CHECK(back[i] == values[i]);
  return out;
}

using Bytes = std::vector<uint8_t>;

}  // namespace

TEST_CASE("external32 golden bytes") {
  CHECK(packed<int>(MPI_INT, {1, -2}) == Bytes{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe});
  CHECK(packed<short>(MPI_SHORT, {0x0102}) == Bytes{1, 2});
  CHECK(packed<long>(MPI_LONG, {-2, 5}) == Bytes{0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 5});
  CHECK(packed<unsigned long>(MPI_UNSIGNED_LONG, {0xfffffffful}) == Bytes{0xff, 0xff, 0xff, 0xff});
  CHECK(packed<int64_t>(MPI_INT64_T, {-2}) == Bytes{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe});
  CHECK(packed<int64_t>(MPI_AINT, {0x0102030405060708}) == Bytes{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(packed<float>(MPI_FLOAT, {1.0f}) == Bytes{0x3f, 0x80, 0, 0});
  CHECK(packed<double>(MPI_DOUBLE, {-2.0}) == Bytes{0xc0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(packed<std::complex<float>>(MPI_C_FLOAT_COMPLEX, {{1.0f, -2.0f}}) == Bytes{0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0});
  CHECK(packed<long double>(MPI_LONG_DOUBLE, {1.0L}) == Bytes{0x3f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(packed<long double>(MPI_LONG_DOUBLE, {-1.5L}) == Bytes{0xbf, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(packed<wchar_t>(MPI_WCHAR, {L'A'}) == Bytes{0, 'A'});
  CHECK(packed<char>(MPI_CHAR, {'x'}) == Bytes{'x'});
  CHECK(packed<int>(MPI_LOGICAL, {1}) == Bytes{0, 0, 0, 1});
  packed<long double>(MPI_LONG_DOUBLE, {3.14159265358979323846L, 1e4000L, -0.0L, INFINITY});
}

TEST_CASE("external32 says when a value does not fit") {
  const long big = 1L << 40;
  uint8_t out[4];
  CHECK_FALSE(pack_external(of_handle(MPI_LONG), 1, &big, out));
}

TEST_CASE("external32 of derived types follows the order of their elements") {
  struct Record {
    double d;
    char c;
    int i[2];
  };
  const std::vector<int64_t> lengths = {1, 1, 2}, at = {offsetof(Record, d), offsetof(Record, c), offsetof(Record, i)};
  const std::vector<Datatype*> types = {&of_handle(MPI_DOUBLE), &of_handle(MPI_CHAR), &of_handle(MPI_INT)};
  Datatype* type = nullptr;
  REQUIRE(structure(lengths, at, types, Form::small, type) == MPI_SUCCESS);
  const Record records[2] = {{1.0, 'a', {1, 2}}, {2.0, 'b', {3, 4}}};
  CHECK(external_size(*type, 2) == 34);
  Bytes out(34);
  REQUIRE(pack_external(*type, 2, records, out.data()));
  CHECK(out == Bytes{0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 'a', 0, 0, 0, 1, 0, 0, 0, 2, 0x40, 0, 0, 0, 0, 0, 0, 0, 'b', 0, 0, 0, 3, 0, 0, 0, 4});
  Record back[2];
  unpack_external(*type, 2, out.data(), back);
  for (int i = 0; i < 2; ++i) {
    CHECK(back[i].d == records[i].d);
    CHECK(back[i].c == records[i].c);
    CHECK(std::memcmp(back[i].i, records[i].i, sizeof back[i].i) == 0);
  }
  release(type);
}
