// So much of the C++ interface of LevelDB itself that the linker has its names: what a program is that was compiled
// with LevelDB's own headers. The layout is nobody's.

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
