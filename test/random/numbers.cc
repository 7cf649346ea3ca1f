#include "numbers.h"

#include <algorithm>
#include <complex>

namespace random_test {

namespace {

template <class T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void store(char* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

template <class T>
T small(Op op, uint64_t random) {
  if (op == Op::band || op == Op::bor || op == Op::bxor) return T(random >> 8);
  if (op == Op::land || op == Op::lor || op == Op::lxor) return T((random >> 8) % 3 == 0 ? 0 : (random >> 16) % 5);
  if (op == Op::prod) return T(1 + (random >> 8) % 2);
  return T((random >> 8) % 15);
}

template <class T>
void draw_integer(Op op, uint64_t random, char* to) {
  T value = small<T>(op, random);
  if (op <= Op::sum && std::is_signed_v<T>) value = T(value - 7);
  store(to, value);
}

template <class T>
void fold_integer(Op op, const char* left, char* right) {
  const T a = load<T>(left), b = load<T>(right);
  switch (op) {
    case Op::max: return store(right, std::max(a, b));
    case Op::min: return store(right, std::min(a, b));
    case Op::sum: return store(right, T(a + b));
    case Op::prod: return store(right, T(a * b));
    case Op::land: return store(right, T(a != 0 && b != 0));
    case Op::lor: return store(right, T(a != 0 || b != 0));
    case Op::lxor: return store(right, T((a != 0) != (b != 0)));
    case Op::band: return store(right, T(a & b));
    case Op::bor: return store(right, T(a | b));
    default: return store(right, T(a ^ b));
  }
}

template <class T>
void draw_float(Op op, uint64_t random, char* to) {
  store(to, op == Op::prod ? T((random >> 8) % 2 ? 2 : -0.5) : T(int((random >> 8) % 31) - 15) / 4);
}

template <class T>
void fold_float(Op op, const char* left, char* right) {
  const T a = load<T>(left), b = load<T>(right);
  store(right, op == Op::max ? std::max(a, b) : op == Op::min ? std::min(a, b) : op == Op::sum ? a + b : a * b);
}

/// Factors are powers of i times 1 + 2i: no part of their products is 0, whose sign would depend on the order.
template <class T>
void draw_complex(Op op, uint64_t random, char* to) {
  const std::complex<T> factors[] = {{1, 2}, {-2, 1}, {-1, -2}, {2, -1}};
  store(to, op == Op::prod ? factors[(random >> 8) % 4] : std::complex<T>(T(int((random >> 8) % 5) - 2), T(int((random >> 16) % 5) - 2)));
}

template <class T>
void fold_complex(Op op, const char* left, char* right) {
  const auto a = load<std::complex<T>>(left), b = load<std::complex<T>>(right);
  const std::complex<T> product(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  store(right, op == Op::sum ? a + b : product);
}

void draw_bool(Op, uint64_t random, char* to) { store(to, (random >> 8) % 2 == 1); }

void fold_bool(Op op, const char* left, char* right) {
  const bool a = load<bool>(left), b = load<bool>(right);
  store(right, op == Op::land ? a && b : op == Op::lor ? a || b : a != b);
}

template <class T>
struct Pair {
  T value;
  int index;
};

template <class T>
void draw_pair(Op, uint64_t random, char* to) {
  store(to + offsetof(Pair<T>, value), T((random >> 8) % 4));
  store(to + offsetof(Pair<T>, index), int((random >> 16) % 100));
}

template <class T>
void fold_pair(Op op, const char* left, char* right) {
  const T a = load<T>(left), b = load<T>(right);
  const size_t at = offsetof(Pair<T>, index);
  const int i = load<int>(left + at), j = load<int>(right + at);
  const bool first = op == Op::maxloc ? a > b : a < b;
  store(right, first ? a : b);
  store(right + at, a == b ? std::min(i, j) : first ? i : j);
}

/// The function x -> a x + b modulo 2^32.
struct Affine {
  uint32_t a, b;
};

void draw_affine(Op, uint64_t random, char* to) { store(to, Affine{uint32_t(random >> 8) | 1u, uint32_t(random >> 24)}); }

void fold_affine(Op op, const char* left, char* right) {
  const Affine f = load<Affine>(left), g = load<Affine>(right);
  store(right, op == Op::user_sum ? Affine{f.a + g.a, f.b + g.b} : Affine{f.a * g.a, g.a * f.b + g.b});
}

void reduce_affine(Op op, void* in, void* inout, int64_t count, MPI_Datatype* type) {
  MPI_Aint lb = 0, extent = 0;
  MPI_Type_get_extent(*type, &lb, &extent);
  for (int64_t i = 0; i < count; ++i) fold_affine(op, static_cast<char*>(in) + i * extent, static_cast<char*>(inout) + i * extent);
}

extern "C" {
void user_sum(void* in, void* inout, int* count, MPI_Datatype* type) { reduce_affine(Op::user_sum, in, inout, *count, type); }
void user_compose(void* in, void* inout, int* count, MPI_Datatype* type) { reduce_affine(Op::user_compose, in, inout, *count, type); }
void large_sum(void* in, void* inout, MPI_Count* count, MPI_Datatype* type) { reduce_affine(Op::user_sum, in, inout, *count, type); }
void large_compose(void* in, void* inout, MPI_Count* count, MPI_Datatype* type) {
  reduce_affine(Op::user_compose, in, inout, *count, type);
}
}

/// A function of the user's as either form of MPI_Op_create takes it.
struct UserFunction {
  using Small = void(void*, void*, int*, MPI_Datatype*);
  using Large = void(void*, void*, MPI_Count*, MPI_Datatype*);
  Small* small;
  Large* large;
  operator Small*() const { return small; }
  operator Large*() const { return large; }
};

const std::vector<Op> arithmetic = {Op::max, Op::min, Op::sum, Op::prod};
const std::vector<Op> bitwise = {Op::band, Op::bor, Op::bxor};
const std::vector<Op> logical = {Op::land, Op::lor, Op::lxor};
const std::vector<Op> integral = {Op::max, Op::min, Op::sum, Op::prod, Op::land, Op::lor, Op::lxor, Op::band, Op::bor, Op::bxor};
const std::vector<Op> multi_language = {Op::max, Op::min, Op::sum, Op::prod, Op::band, Op::bor, Op::bxor};

template <class T>
Number integer(const char* name, MPI_Datatype type, const std::vector<Op>& ops = integral) {
  return {name, type, {{0, sizeof(T)}}, sizeof(T), ops, draw_integer<T>, fold_integer<T>};
}

/// What counts of a floating-point number; the rest of a long double is padding.
template <class T>
constexpr int significant = sizeof(T) == 16 ? 10 : int(sizeof(T));

template <class T>
Number floating(const char* name, MPI_Datatype type) {
  return {name, type, {{0, significant<T>}}, sizeof(T), arithmetic, draw_float<T>, fold_float<T>};
}

template <class T>
Number complex(const char* name, MPI_Datatype type) {
  return {name, type, {{0, int(2 * sizeof(T))}}, 2 * sizeof(T), {Op::sum, Op::prod}, draw_complex<T>, fold_complex<T>};
}

template <class T>
Number pair(const char* name, MPI_Datatype type) {
  return {name,
          type,
          {{0, significant<T>}, {int64_t(offsetof(Pair<T>, index)), sizeof(int)}},
          sizeof(Pair<T>),
          {Op::maxloc, Op::minloc},
          draw_pair<T>,
          fold_pair<T>};
}

std::vector<Number> all_numbers() {
  const Number user{"user's type", MPI_DATATYPE_NULL, {{0, 4}, {4, 4}}, 8, {Op::user_sum, Op::user_compose}, draw_affine, fold_affine};
  return {integer<signed char>("SIGNED_CHAR", MPI_SIGNED_CHAR),
          integer<unsigned char>("UNSIGNED_CHAR", MPI_UNSIGNED_CHAR),
          integer<short>("SHORT", MPI_SHORT),
          integer<unsigned short>("UNSIGNED_SHORT", MPI_UNSIGNED_SHORT),
          integer<int>("INT", MPI_INT),
          integer<unsigned>("UNSIGNED", MPI_UNSIGNED),
          integer<long>("LONG", MPI_LONG),
          integer<unsigned long>("UNSIGNED_LONG", MPI_UNSIGNED_LONG),
          integer<long long>("LONG_LONG", MPI_LONG_LONG),
          integer<int8_t>("INT8_T", MPI_INT8_T),
          integer<uint16_t>("UINT16_T", MPI_UINT16_T),
          integer<int32_t>("INT32_T", MPI_INT32_T),
          integer<uint64_t>("UINT64_T", MPI_UINT64_T),
          integer<uint8_t>("BYTE", MPI_BYTE, bitwise),
          integer<MPI_Aint>("AINT", MPI_AINT, multi_language),
          integer<MPI_Offset>("OFFSET", MPI_OFFSET, multi_language),
          integer<MPI_Count>("COUNT", MPI_COUNT, multi_language),
          floating<float>("FLOAT", MPI_FLOAT),
          floating<double>("DOUBLE", MPI_DOUBLE),
          floating<long double>("LONG_DOUBLE", MPI_LONG_DOUBLE),
          complex<float>("C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX),
          complex<double>("C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX),
          Number{"C_BOOL", MPI_C_BOOL, {{0, sizeof(bool)}}, sizeof(bool), logical, draw_bool, fold_bool},
          pair<int>("2INT", MPI_2INT),
          pair<short>("SHORT_INT", MPI_SHORT_INT),
          pair<long>("LONG_INT", MPI_LONG_INT),
          pair<float>("FLOAT_INT", MPI_FLOAT_INT),
          pair<double>("DOUBLE_INT", MPI_DOUBLE_INT),
          pair<long double>("LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT),
          user,
          user,
          user,
          user};
}

}  // namespace

const Number& draw_number(Rng& rng) {
  static const std::vector<Number> all = all_numbers();
  return rng.pick(all);
}

Operation::Operation(Rng& rng, Op op) {
  static const char* const names[] = {
      "max", "min", "sum", "prod", "land", "lor", "lxor", "band", "bor", "bxor", "maxloc", "minloc", "commutative user op", "user op"};
  text = names[int(op)];
  switch (op) {
    case Op::max: handle = MPI_MAX; break;
    case Op::min: handle = MPI_MIN; break;
    case Op::sum: handle = MPI_SUM; break;
    case Op::prod: handle = MPI_PROD; break;
    case Op::land: handle = MPI_LAND; break;
    case Op::lor: handle = MPI_LOR; break;
    case Op::lxor: handle = MPI_LXOR; break;
    case Op::band: handle = MPI_BAND; break;
    case Op::bor: handle = MPI_BOR; break;
    case Op::bxor: handle = MPI_BXOR; break;
    case Op::maxloc: handle = MPI_MAXLOC; break;
    case Op::minloc: handle = MPI_MINLOC; break;
    case Op::user_sum:
    case Op::user_compose: {
      const bool sum = op == Op::user_sum;
      ok(BOTH(MPI_Op_create)(rng, sum ? UserFunction{user_sum, large_sum} : UserFunction{user_compose, large_compose}, sum, &handle));
      owned_ = true;
    }
  }
}

Operation::~Operation() {
  if (owned_) MPI_Op_free(&handle);
}

}  // namespace random_test
