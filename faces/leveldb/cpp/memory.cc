// NewMemEnv(): an environment whose files are in memory.
//
//   MemoryEnv --- files that the program makes through it: names and bytes, here
//       |
//       +-------- evendb_leveldb_memory_t: the disk in memory of the databases that are opened with it
//
// One lock guards the names, and each file has one of its own. A file that is removed or replaced
// while somebody has it open goes with its last reader.

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "internals.h"
#include "leveldb/env.h"
#include "leveldb/evendb.h"
#include "leveldb/helpers/memenv.h"

namespace leveldb {

namespace {

class Bytes {
 public:
  void Append(const Slice& data) {
    const std::lock_guard<std::mutex> guard(lock_);
    bytes_.append(data.data(), data.size());
  }

  uint64_t Size() const {
    const std::lock_guard<std::mutex> guard(lock_);
    return bytes_.size();
  }

  // Copies up to `n` bytes into `scratch`; none behind the end.
  Slice Read(uint64_t offset, size_t n, char* scratch) const {
    const std::lock_guard<std::mutex> guard(lock_);
    if (offset >= bytes_.size()) return Slice();
    const size_t rest = bytes_.size() - static_cast<size_t>(offset);
    const size_t count = n < rest ? n : rest;
    std::memcpy(scratch, bytes_.data() + offset, count);
    return Slice(scratch, count);
  }

 private:
  mutable std::mutex lock_;
  std::string bytes_;
};

using SharedBytes = std::shared_ptr<Bytes>;

class MemorySequentialFile final : public SequentialFile {
 public:
  explicit MemorySequentialFile(SharedBytes bytes) : bytes_(std::move(bytes)) {}

  Status Read(size_t n, Slice* result, char* scratch) override {
    *result = bytes_->Read(at_, n, scratch);
    at_ += result->size();
    return Status::OK();
  }

  Status Skip(uint64_t n) override {
    const uint64_t rest = bytes_->Size() - at_;
    at_ += n < rest ? n : rest;
    return Status::OK();
  }

 private:
  const SharedBytes bytes_;
  uint64_t at_ = 0;
};

class MemoryRandomAccessFile final : public RandomAccessFile {
 public:
  explicit MemoryRandomAccessFile(SharedBytes bytes) : bytes_(std::move(bytes)) {}

  Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const override {
    *result = bytes_->Read(offset, n, scratch);
    return Status::OK();
  }

 private:
  const SharedBytes bytes_;
};

class MemoryWritableFile final : public WritableFile {
 public:
  explicit MemoryWritableFile(SharedBytes bytes) : bytes_(std::move(bytes)) {}

  Status Append(const Slice& data) override {
    bytes_->Append(data);
    return Status::OK();
  }
  Status Close() override { return Status::OK(); }
  Status Flush() override { return Status::OK(); }
  Status Sync() override { return Status::OK(); }

 private:
  const SharedBytes bytes_;
};

class MemoryFileLock final : public FileLock {
 public:
  explicit MemoryFileLock(const std::string& name) : name_(name) {}
  const std::string& name() const { return name_; }

 private:
  const std::string name_;
};

class SilentLogger final : public Logger {
 public:
  void Logv(const char*, std::va_list) override {}
};

class MemoryEnv final : public EnvWrapper {
 public:
  explicit MemoryEnv(Env* base) : EnvWrapper(base), disk_(evendb_leveldb_memory_create()) {
    Made::Add(static_cast<Env*>(this), reinterpret_cast<uintptr_t>(disk_));
  }

  ~MemoryEnv() override {
    Made::Remove(static_cast<Env*>(this));
    evendb_leveldb_memory_destroy(disk_);
  }

  Status NewSequentialFile(const std::string& fname, SequentialFile** result) override {
    return Open<MemorySequentialFile>(fname, result);
  }
  Status NewRandomAccessFile(const std::string& fname, RandomAccessFile** result) override {
    return Open<MemoryRandomAccessFile>(fname, result);
  }

  Status NewWritableFile(const std::string& fname, WritableFile** result) override {
    const std::lock_guard<std::mutex> guard(lock_);
    SharedBytes& bytes = files_[fname];
    bytes = std::make_shared<Bytes>();
    *result = new MemoryWritableFile(bytes);
    return Status::OK();
  }

  Status NewAppendableFile(const std::string& fname, WritableFile** result) override {
    const std::lock_guard<std::mutex> guard(lock_);
    SharedBytes& bytes = files_[fname];
    if (bytes == nullptr) bytes = std::make_shared<Bytes>();
    *result = new MemoryWritableFile(bytes);
    return Status::OK();
  }

  bool FileExists(const std::string& fname) override { return Find(fname) != nullptr; }

  // Directories are what stands before a slash in the names of files.
  Status GetChildren(const std::string& dir, std::vector<std::string>* result) override {
    result->clear();
    const std::string inside = dir + "/";
    const std::lock_guard<std::mutex> guard(lock_);
    for (const auto& file : files_) {
      const std::string& name = file.first;
      if (name.size() > inside.size() && name.compare(0, inside.size(), inside) == 0) {
        result->push_back(name.substr(inside.size()));
      }
    }
    return Status::OK();
  }

  Status RemoveFile(const std::string& fname) override {
    const std::lock_guard<std::mutex> guard(lock_);
    return files_.erase(fname) > 0 ? Status::OK() : Missing(fname);
  }

  Status CreateDir(const std::string&) override { return Status::OK(); }
  Status RemoveDir(const std::string&) override { return Status::OK(); }

  Status GetFileSize(const std::string& fname, uint64_t* file_size) override {
    const SharedBytes found = Find(fname);
    *file_size = found == nullptr ? 0 : found->Size();
    return found == nullptr ? Missing(fname) : Status::OK();
  }

  Status RenameFile(const std::string& src, const std::string& target) override {
    const std::lock_guard<std::mutex> guard(lock_);
    const auto found = files_.find(src);
    if (found == files_.end()) return Missing(src);
    const SharedBytes bytes = found->second;
    files_.erase(found);
    files_[target] = bytes;
    return Status::OK();
  }

  Status LockFile(const std::string& fname, FileLock** lock) override {
    *lock = nullptr;
    const std::lock_guard<std::mutex> guard(lock_);
    if (!locked_.emplace(fname, true).second) return Status::IOError("lock " + fname, "already held");
    *lock = new MemoryFileLock(fname);
    return Status::OK();
  }

  Status UnlockFile(FileLock* lock) override {
    const std::unique_ptr<MemoryFileLock> held(static_cast<MemoryFileLock*>(lock));
    const std::lock_guard<std::mutex> guard(lock_);
    locked_.erase(held->name());
    return Status::OK();
  }

  Status GetTestDirectory(std::string* path) override {
    *path = "/test";
    return Status::OK();
  }

  Status NewLogger(const std::string&, Logger** result) override {
    *result = new SilentLogger;
    return Status::OK();
  }

 private:
  static Status Missing(const std::string& name) { return Status::NotFound(name, "there is no such file in memory"); }

  SharedBytes Find(const std::string& name) {
    const std::lock_guard<std::mutex> guard(lock_);
    const auto found = files_.find(name);
    return found == files_.end() ? nullptr : found->second;
  }

  template <typename Kind, typename Result>
  Status Open(const std::string& name, Result** result) {
    *result = nullptr;
    SharedBytes found = Find(name);
    if (found == nullptr) return Missing(name);
    *result = new Kind(std::move(found));
    return Status::OK();
  }

  evendb_leveldb_memory_t* const disk_;
  std::mutex lock_;
  std::map<std::string, SharedBytes> files_;
  std::map<std::string, bool> locked_;
};

}  // namespace

Env* NewMemEnv(Env* base_env) { return new MemoryEnv(base_env); }

}  // namespace leveldb
