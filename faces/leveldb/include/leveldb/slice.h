// Somebody else's bytes: a pointer and a length. A Slice owns nothing; the bytes must outlive it.

#ifndef EVENDB_LEVELDB_SLICE_H_
#define EVENDB_LEVELDB_SLICE_H_

#include <cassert>
#include <cstddef>
#include <cstring>
#include <string>

#include "leveldb/export.h"

namespace leveldb {

class LEVELDB_EXPORT Slice {
 public:
  Slice() = default;
  Slice(const char* d, size_t n) : data_(d), size_(n) {}
  Slice(const std::string& s) : Slice(s.data(), s.size()) {}
  Slice(const char* s) : Slice(s, std::strlen(s)) {}

  const char* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  char operator[](size_t n) const {
    assert(n < size_);
    return data_[n];
  }

  void clear() { *this = Slice(); }

  void remove_prefix(size_t n) {
    assert(n <= size_);
    *this = Slice(data_ + n, size_ - n);
  }

  std::string ToString() const { return std::string(data_, size_); }

  // Below, at or above 0 if this is below, equal to or above `b`, byte by byte.
  int compare(const Slice& b) const {
    const size_t both = size_ < b.size_ ? size_ : b.size_;
    const int order = both == 0 ? 0 : std::memcmp(data_, b.data_, both);
    if (order != 0) return order;
    return size_ == b.size_ ? 0 : (size_ < b.size_ ? -1 : 1);
  }

  bool starts_with(const Slice& x) const {
    return size_ >= x.size_ && Slice(data_, x.size_).compare(x) == 0;
  }

 private:
  const char* data_ = "";
  size_t size_ = 0;
};

inline bool operator==(const Slice& x, const Slice& y) { return x.size() == y.size() && x.compare(y) == 0; }
inline bool operator!=(const Slice& x, const Slice& y) { return !(x == y); }

}  // namespace leveldb

#endif
