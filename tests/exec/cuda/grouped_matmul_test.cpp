// Grouped products for every way in which rows can be shared: whole numbers, whose sums are exact in any order, so that a
// row that is lost, added twice or multiplied with another expert's matrix is a difference.
#include "exec/cuda/grouped_matmul.h"

#include <algorithm>

#include "exec/cuda/grouped_matmul_own.h"
#include "gpu_test.h"

namespace penstock::exec {
namespace {

struct Case {
  std::string name;
  std::vector<std::int32_t> rows;  // of each expert
  std::int64_t outputs, inputs;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const std::vector<Case>& cases() {
  std::vector<std::int32_t> many(130, 3), most(70, 0);
  many[129] = 500;
  most[69] = 300;
  static const std::vector<Case> all = {
      {"one_row", {1}, 8, 8},
      {"one_expert_whole_tiles", {256}, 128, 64},
      {"around_tiles", {127, 128, 129, 1, 255, 257}, 136, 96},
      {"none_first_and_last", {0, 0, 130, 0, 7, 0}, 264, 40},
      {"all_to_one", {0, 0, 0, 700, 0, 0, 0, 0}, 96, 144},
      {"more_experts_than_a_warp", many, 72, 200},
      {"only_the_last", most, 64, 32},
      {"odd_sizes", {5, 0, 131, 64}, 37, 101},
      {"odd_outputs", {33, 100}, 131, 64},
      {"odd_inputs", {33, 100}, 64, 131},
      {"tiny", {2, 1, 0, 3}, 3, 1},
      {"deep", {40, 90}, 128, 1056},
  };
  return all;
}

/// Whole numbers of at most 2, so that sums of as many as any case has are exact in fp32, and of sums rounded to bf16 only
/// the rounding is left.
std::vector<std::uint16_t> whole_numbers(const std::string& name, std::int64_t count) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  const std::uint64_t key = random_key(3, name);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = round_to_bf16(static_cast<float>(random_below(key, i, 5)) - 2.0f);
  return values;
}

class GroupedMatmul : public GpuTestWith<Case> {
 protected:
  void SetUp() override {
    GpuTestWith<Case>::SetUp();
    first_.push_back(0);
    for (const std::int32_t rows : c_.rows) first_.push_back(first_.back() + rows);
    rows_ = first_.back();
  }

  ExpertRows rows_on(const DeviceMemory& first) const { return {first.as<std::int32_t>(), experts_, rows_}; }
  LibraryWorkspace workspace() const { return {workspace_.data(), workspace_.bytes()}; }
  /// Matrices lie apart, as groups of parameters do.
  std::int64_t stride() const { return (c_.outputs * c_.inputs + 63) / 64 * 64 + 64; }
  float value(const std::vector<std::uint16_t>& values, std::int64_t at) const {
    return widen_bf16(values[static_cast<std::size_t>(at)]);
  }

  const Case& c_ = GetParam();
  const std::int64_t experts_ = static_cast<std::int64_t>(c_.rows.size());
  std::vector<std::int32_t> first_;
  std::int64_t rows_ = 0;

 private:
  DeviceMemory workspace_{why_no_device().empty() ? kLibraryWorkspaceBytes : 0};
};
INSTANTIATE_TEST_SUITE_P(Cases, GroupedMatmul, ::testing::ValuesIn(cases()),
                         [](const auto& parameter) { return parameter.param.name; });

TEST_P(GroupedMatmul, ForwardAndInputGradientTakeEachExpertsMatrix) {
  const auto x = whole_numbers("x", rows_ * c_.inputs), d_y = whole_numbers("d_y", rows_ * c_.outputs);
  const auto w = whole_numbers("w", experts_ * stride());
  std::vector<std::uint16_t> y(static_cast<std::size_t>(rows_ * c_.outputs)), d_x(x.size());
  for (std::int64_t e = 0; e < experts_; ++e)
    for (std::int64_t row = first_[static_cast<std::size_t>(e)]; row < first_[static_cast<std::size_t>(e) + 1]; ++row) {
      std::vector<float> back(static_cast<std::size_t>(c_.inputs));
      for (std::int64_t o = 0; o < c_.outputs; ++o) {
        float sum = 0;
        for (std::int64_t i = 0; i < c_.inputs; ++i) {
          const float weight = value(w, e * stride() + o * c_.inputs + i);
          sum += value(x, row * c_.inputs + i) * weight;
          back[static_cast<std::size_t>(i)] += value(d_y, row * c_.outputs + o) * weight;
        }
        y[static_cast<std::size_t>(row * c_.outputs + o)] = round_to_bf16(sum);
      }
      for (std::int64_t i = 0; i < c_.inputs; ++i)
        d_x[static_cast<std::size_t>(row * c_.inputs + i)] = round_to_bf16(back[static_cast<std::size_t>(i)]);
    }
  const DeviceMemory first = to_device(first_), on_x = to_device(x), on_w = to_device(w), on_d_y = to_device(d_y);
  const std::uint16_t *const gpu_x = on_x.as<std::uint16_t>(), *const gpu_d_y = on_d_y.as<std::uint16_t>();
  const ExpertMatrices matrices{on_w.as<std::uint16_t>(), stride()};
  for (const bool own : {false, true}) {
    SCOPED_TRACE(own ? "own kernels" : "as they are chosen");
    DeviceMemory on_y(2 * static_cast<std::int64_t>(y.size())), on_d_x(2 * static_cast<std::int64_t>(x.size()));
    on_y.fill(0xFF);
    on_d_x.fill(0xFF);
    auto *const gpu_y = on_y.as<std::uint16_t>(), *const gpu_d_x = on_d_x.as<std::uint16_t>();
    if (own) {
      own_grouped::forward(rows_on(first), gpu_x, matrices, gpu_y, c_.outputs, c_.inputs, nullptr);
      own_grouped::input_gradient(rows_on(first), gpu_d_y, matrices, gpu_d_x, c_.outputs, c_.inputs, nullptr);
    } else {
      grouped_forward(rows_on(first), gpu_x, matrices, gpu_y, c_.outputs, c_.inputs, workspace(), nullptr);
      grouped_input_gradient(rows_on(first), gpu_d_y, matrices, gpu_d_x, c_.outputs, c_.inputs, workspace(), nullptr);
    }
    synchronize_device();
    EXPECT_EQ(to_host<std::uint16_t>(on_y, rows_ * c_.outputs), y);
    EXPECT_EQ(to_host<std::uint16_t>(on_d_x, rows_ * c_.inputs), d_x);
  }
}

TEST_P(GroupedMatmul, WeightGradientIsOfTheExpertsRowsAlone) {
  const auto x = whole_numbers("x", rows_ * c_.inputs), d_y = whole_numbers("d_y", rows_ * c_.outputs);
  std::vector<float> sums(static_cast<std::size_t>(experts_ * stride()), 7.0f);  // between the matrices as it was
  for (std::int64_t e = 0; e < experts_; ++e) {
    float* const matrix = sums.data() + e * stride();
    std::fill_n(matrix, c_.outputs * c_.inputs, 0.0f);
    for (std::int64_t row = first_[static_cast<std::size_t>(e)]; row < first_[static_cast<std::size_t>(e) + 1]; ++row)
      for (std::int64_t o = 0; o < c_.outputs; ++o)
        for (std::int64_t i = 0; i < c_.inputs; ++i)
          matrix[o * c_.inputs + i] += value(d_y, row * c_.outputs + o) * value(x, row * c_.inputs + i);
  }
  std::vector<std::uint16_t> rounded, rounded_twice;
  std::vector<float> twice = sums;
  const std::int64_t own_elements = c_.outputs * c_.inputs;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const bool is_own = static_cast<std::int64_t>(i) % stride() < own_elements;
    rounded.push_back(round_to_bf16(sums[i]));
    rounded_twice.push_back(is_own ? round_to_bf16(widen_bf16(rounded.back()) + sums[i]) : rounded.back());
    if (is_own) twice[i] *= 2;
  }
  const DeviceMemory first = to_device(first_), on_x = to_device(x), on_d_y = to_device(d_y);
  const std::uint16_t *const gpu_x = on_x.as<std::uint16_t>(), *const gpu_d_y = on_d_y.as<std::uint16_t>();
  for (const bool own : {false, true}) {
    SCOPED_TRACE(own ? "own kernels" : "as they are chosen");
    const auto run = [&](ElementType type, const DeviceMemory& memory, bool accumulates) {
      const GradientTarget target{memory.data(), type, accumulates};
      if (own)
        own_grouped::weight_gradient(rows_on(first), gpu_d_y, gpu_x, target, stride(), c_.outputs, c_.inputs, nullptr);
      else
        grouped_weight_gradient(rows_on(first), gpu_d_y, gpu_x, target, stride(), c_.outputs, c_.inputs, workspace(),
                                nullptr);
      synchronize_device();
    };
    const std::int64_t all = experts_ * stride();
    const DeviceMemory wide = to_device(std::vector<float>(sums.size(), 7.0f));
    run(ElementType::fp32, wide, false);
    EXPECT_EQ(to_host<float>(wide, all), sums);
    run(ElementType::fp32, wide, true);
    EXPECT_EQ(to_host<float>(wide, all), twice);
    const DeviceMemory narrow = to_device(std::vector<std::uint16_t>(sums.size(), round_to_bf16(7.0f)));
    run(ElementType::bf16, narrow, false);
    EXPECT_EQ(to_host<std::uint16_t>(narrow, all), rounded);
    run(ElementType::bf16, narrow, true);
    EXPECT_EQ(to_host<std::uint16_t>(narrow, all), rounded_twice);
  }
}

}  // namespace
}  // namespace penstock::exec
