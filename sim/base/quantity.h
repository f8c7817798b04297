// Physical quantities as types, so that a formula whose units are wrong does not compile.
//
// A Quantity is a double in SI base units (bytes, FLOP, seconds) tagged with the exponents of its
// three dimensions.  A product or a quotient has the dimensions that follow from its operands; a
// quotient of equal dimensions is a plain double:
//
//   const Seconds t = flops / peak;          // Flops / FlopsPerSecond
//   std::printf("%.2f ms\n", t / ms);        // Seconds / Seconds
//
// GB is 10^9 bytes and GiB 2^30; FLOP is an amount, FLOPS a rate; a multiply-add is 2 FLOP.
// Bytes up to 2^53 are exact.
#pragma once

#include <compare>
#include <cstdint>

namespace llmsim::sim {

template <int ByteExponent, int FlopExponent, int SecondExponent>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}

  // The number of SI base units.  For the edges of the program only (SQL, JSON, Eigen, printing).
  constexpr double value() const { return value_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  // As the comparisons of doubles, of which a compiler makes a maximum without a branch, not by way
  // of a partial order.
  friend constexpr bool operator<(Quantity a, Quantity b) { return a.value_ < b.value_; }
  friend constexpr bool operator>(Quantity a, Quantity b) { return a.value_ > b.value_; }
  friend constexpr bool operator<=(Quantity a, Quantity b) { return a.value_ <= b.value_; }
  friend constexpr bool operator>=(Quantity a, Quantity b) { return a.value_ >= b.value_; }
  constexpr Quantity operator-() const { return Quantity(-value_); }
  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  constexpr Quantity& operator*=(double factor) {
    value_ *= factor;
    return *this;
  }
  constexpr Quantity& operator/=(double divisor) {
    value_ /= divisor;
    return *this;
  }

  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.value_ + b.value_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value_ - b.value_);
  }
  friend constexpr Quantity operator*(Quantity a, double factor) {
    return Quantity(a.value_ * factor);
  }
  friend constexpr Quantity operator*(double factor, Quantity a) {
    return Quantity(a.value_ * factor);
  }
  friend constexpr Quantity operator/(Quantity a, double divisor) {
    return Quantity(a.value_ / divisor);
  }

 private:
  double value_ = 0.0;
};

template <int B1, int F1, int S1, int B2, int F2, int S2>
constexpr auto operator*(Quantity<B1, F1, S1> a, Quantity<B2, F2, S2> b) {
  if constexpr (B1 + B2 == 0 && F1 + F2 == 0 && S1 + S2 == 0) {
    return a.value() * b.value();
  } else {
    return Quantity<B1 + B2, F1 + F2, S1 + S2>(a.value() * b.value());
  }
}

template <int B1, int F1, int S1, int B2, int F2, int S2>
constexpr auto operator/(Quantity<B1, F1, S1> a, Quantity<B2, F2, S2> b) {
  if constexpr (B1 == B2 && F1 == F2 && S1 == S2) {
    return a.value() / b.value();
  } else {
    return Quantity<B1 - B2, F1 - F2, S1 - S2>(a.value() / b.value());
  }
}

using Bytes = Quantity<1, 0, 0>;
using Flops = Quantity<0, 1, 0>;
using Seconds = Quantity<0, 0, 1>;
using BytesPerSecond = Quantity<1, 0, -1>;
using FlopsPerSecond = Quantity<0, 1, -1>;
using Hertz = Quantity<0, 0, -1>;

// A count as a factor of formulas.
constexpr double real(std::int64_t count) { return static_cast<double>(count); }

inline constexpr Bytes KiB{1024.0};
inline constexpr Bytes MiB{1024.0 * 1024.0};
inline constexpr Bytes GiB{1024.0 * 1024.0 * 1024.0};
inline constexpr Bytes MB{1e6};
inline constexpr Bytes GB{1e9};
inline constexpr Bytes TB{1e12};
inline constexpr Flops FLOP{1.0};
inline constexpr Flops TFLOP{1e12};
inline constexpr Flops PFLOP{1e15};
inline constexpr Seconds ms{1e-3};
inline constexpr Seconds us{1e-6};
inline constexpr BytesPerSecond GBps{1e9};
inline constexpr BytesPerSecond TBps{1e12};
inline constexpr FlopsPerSecond TFLOPS{1e12};
inline constexpr Hertz GHz{1e9};

}  // namespace llmsim::sim
