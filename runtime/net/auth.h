// What proves that a connection comes from the same job: a keyed hash (HMAC-SHA256, RFC 2104 and FIPS 180-4) and random bytes.
// Self-contained, because libmpi is linked into every program and few bytes are ever hashed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace weft::net {

using Bytes = std::span<const std::byte>;
using Digest = std::array<std::byte, 32>;

inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// SHA-256 of the concatenation of `parts`.
Digest sha256(std::initializer_list<Bytes> parts);
/// HMAC-SHA256 of the concatenation of `parts`.
Digest hmac(Bytes key, std::initializer_list<Bytes> parts);
/// Compares in a time that does not depend on where the difference is.
bool equal(const Digest& a, const Digest& b);
/// Unpredictable bytes from the kernel.
void fill_random(std::span<std::byte> out);

}  // namespace weft::net
