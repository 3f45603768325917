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
  Status(const Status&) = default;
  Status& operator=(const Status&) = default;
  // An object that was moved from is OK.
  Status(Status&& rhs) noexcept : code_(rhs.code_), message_(std::move(rhs.message_)) { rhs.code_ = kOk; }
  Status& operator=(Status&& rhs) noexcept {
    std::swap(code_, rhs.code_);
    message_.swap(rhs.message_);
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

  bool ok() const { return code_ == kOk; }
  bool IsNotFound() const { return code_ == kNotFound; }
  bool IsCorruption() const { return code_ == kCorruption; }
  bool IsIOError() const { return code_ == kIOError; }
  bool IsNotSupportedError() const { return code_ == kNotSupported; }
  bool IsInvalidArgument() const { return code_ == kInvalidArgument; }

  // "OK", or the kind and the message.
  EVENDB_LEVELDB_OWN std::string ToString() const;

 private:
  enum Code { kOk, kNotFound, kCorruption, kNotSupported, kInvalidArgument, kIOError };

  EVENDB_LEVELDB_OWN Status(Code code, const Slice& msg, const Slice& msg2);

  Code code_ = kOk;
  std::string message_;
};

}  // namespace leveldb

#endif
