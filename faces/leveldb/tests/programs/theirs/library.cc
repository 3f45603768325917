// A library with LevelDB's names, in the place of LevelDB's own library.

#include "leveldb/db.h"

namespace leveldb {

Options::Options() : own() {}
std::string Status::ToString() const { return state_ == nullptr ? "OK" : state_; }

Status DB::Open(const Options&, const std::string&, DB** dbptr) {
  *dbptr = nullptr;
  return Status();
}

}  // namespace leveldb
