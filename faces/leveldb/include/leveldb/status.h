// The result of a call: OK, or one of five kinds of failure with a message.

#ifndef EVENDB_LEVELDB_STATUS_H_
#define EVENDB_LEVELDB_STATUS_H_

#include <string>
#include <utility>

#include "leveldb/export.h"
#include "leveldb/slice.h"

namespace leveldb {

class LEVELDB_EXPORT Status {
 public:
  Status() noexcept = default;
  ~Status() { delete[] state_; }
  Status(const Status& rhs) : state_(rhs.ok() ? nullptr : CopyState(rhs.state_)) {}
  Status& operator=(const Status& rhs) { return *this = Status(rhs); }
  // An object that was moved from is OK, or has the other's old state.
  Status(Status&& rhs) noexcept { std::swap(state_, rhs.state_); }
  Status& operator=(Status&& rhs) noexcept {
    std::swap(state_, rhs.state_);
    return *this;
  }

  static Status OK() { return Status(); }
  static Status NotFound(const Slice& msg, const Slice& msg2 = Slice()) { return Status(kNotFound, msg, msg2); }
  static Status Corruption(const Slice& msg, const Slice& msg2 = Slice()) { return Status(kCorruption, msg, msg2); }
  static Status NotSupported(const Slice& msg, const Slice& msg2 = Slice()) {
    return Status(kNotSupported, msg, msg2);
  }
  static Status InvalidArgument(const Slice& msg, const Slice& msg2 = Slice()) {
    return Status(kInvalidArgument, msg, msg2);
  }
  static Status IOError(const Slice& msg, const Slice& msg2 = Slice()) { return Status(kIOError, msg, msg2); }

  bool ok() const { return state_ == nullptr; }
  bool IsNotFound() const { return code() == kNotFound; }
  bool IsCorruption() const { return code() == kCorruption; }
  bool IsIOError() const { return code() == kIOError; }
  bool IsNotSupportedError() const { return code() == kNotSupported; }
  bool IsInvalidArgument() const { return code() == kInvalidArgument; }

  // "OK", or the kind and the message.
  std::string ToString() const;

 private:
  enum Code { kOk, kNotFound, kCorruption, kNotSupported, kInvalidArgument, kIOError };

  Status(Code code, const Slice& msg, const Slice& msg2);

  // The copy is the caller's.
  static const char* CopyState(const char* state);

  Code code() const { return ok() ? kOk : static_cast<Code>(state_[kCodeAt]); }

  static const size_t kCodeAt = 4;
  static const size_t kMessageAt = 5;

  // Null for OK. Otherwise bytes by new[]: the length of the message in four bytes, the code in one,
  // and the message, which no zero ends.
  const char* state_ = nullptr;
};

}  // namespace leveldb

#endif
