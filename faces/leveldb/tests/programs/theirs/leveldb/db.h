// The part of LevelDB's own C++ interface that gives the linker its names. A program that was
// compiled with LevelDB's own headers has these names. The layout belongs to nobody.

#include <string>

namespace leveldb {

struct Options {
  Options();
  void* own[16];
};

class Status {
 public:
  std::string ToString() const;

 private:
  const char* state_ = nullptr;
};

class DB {
 public:
  static Status Open(const Options& options, const std::string& name, DB** dbptr);
};

}  // namespace leveldb
