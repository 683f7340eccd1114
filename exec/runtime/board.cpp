#include "exec/runtime/board.h"

#include <cstdlib>
#include <new>
#include <utility>

namespace penstock::exec {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

void Board::Free::operator()(Word* words) const { std::free(words); }

Board::Board(std::size_t ops) : ops_(ops), bytes_(((ops + 1) * sizeof(Word) + kPage - 1) / kPage * kPage) {
  void* memory = std::aligned_alloc(kPage, bytes_);
  if (memory == nullptr) throw std::bad_alloc();
  words_.reset(static_cast<Word*>(memory));
  for (std::size_t i = 0; i <= ops; ++i) new (words_.get() + i) Word(0);
  aborted_ = words_.get() + ops;
}

bool Board::wait(int op, std::uint32_t count) const {
  const Word& word = words_[index(op)];
  for (;;) {
    const std::uint32_t value = word.load(std::memory_order_acquire);
    if (aborted()) return false;
    if (value >= count) return true;
    word.wait(value, std::memory_order_acquire);
  }
}

void Board::publish(int op, std::uint32_t count) {
  Word& word = words_[index(op)];
  // Not a plain store: it must never take back what `abort` has released.
  std::uint32_t value = word.load(std::memory_order_relaxed);
  while (value < count && !word.compare_exchange_weak(value, count, std::memory_order_acq_rel)) {
  }
  word.notify_all();
}

void Board::abort(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted()) return;
    error_ = std::move(error);
    aborted_->store(1, std::memory_order_seq_cst);
  }
  aborted_->notify_all();
  for (std::size_t op = 0; op < ops_; ++op) {
    words_[op].store(kReleased, std::memory_order_seq_cst);
    words_[op].notify_all();
  }
}

std::exception_ptr Board::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

std::uint64_t Board::progress() const {
  std::uint64_t sum = 0;
  for (std::size_t op = 0; op < ops_; ++op) sum += words_[op].load(std::memory_order_relaxed);
  return sum;
}

}  // namespace penstock::exec
