// Quantities as people write them. The unit is mandatory and is never guessed.
//
// Reading: a decimal number ("24", "1.5", "6.4e2"), at most a few spaces, a unit from the list of its kind, nothing
// else.
//   bytes      B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024): 1 GB = 1e9 bytes, 1 GiB = 2^30
//   bandwidth  the same with /s
//   compute    MFLOP/s, GFLOP/s, TFLOP/s, PFLOP/s (powers of 1000)
//   time       ns, us, ms, s
//   power      W, kW
//   count      a whole number, or a number and k, M, B (1e9) or T (1e12): tokens
//   rate       param/s, kparam/s, Mparam/s, Gparam/s: parameters updated per second
// Every error is an InputError: "<place>: expected a size with its unit (...), such as "24 GiB"; found "24"".
// Negative, non-finite and absurd values are refused: more than 1e18 bytes or bytes/s, 1e21 FLOP/s, 1e9 s, 1e15
// param/s, 1e9 W, 1e18 of a count. Zero is left to the caller.
//
// Thread-safe: no state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

/// Rounded to the nearest byte.
std::int64_t parse_bytes(std::string_view text, const std::string& place);
/// Bytes per second.
double parse_bandwidth(std::string_view text, const std::string& place);
/// FLOP per second.
double parse_flops(std::string_view text, const std::string& place);
double parse_seconds(std::string_view text, const std::string& place);
/// Parameters per second.
double parse_rate(std::string_view text, const std::string& place);
double parse_watts(std::string_view text, const std::string& place);
/// "10B", "1.5e9", "300000": a whole number, at least 1.
std::int64_t parse_count(std::string_view text, const std::string& place);

/// "22.35 GiB", also where it is little: one unit for a whole table.
std::string format_bytes_gib(double bytes);
/// The binary unit that suits: "512 B", "1.50 MiB", "22.35 GiB".
std::string format_bytes(double bytes);
/// Four significant digits in the unit that suits: "4.2 us", "812.5 ms", "12.34 s".
std::string format_seconds(double seconds);
/// "55.4 GB/s", powers of 1000.
std::string format_bandwidth(double bytes_per_second);
/// "687.0 TFLOP/s".
std::string format_flops(double flops_per_second);
/// "7,615,616,512".
std::string format_count(std::int64_t count);

}  // namespace penstock
