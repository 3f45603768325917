// Env::Default(): the operating system's files, threads and clock, by POSIX.
//
// For programs that use LevelDB's environment for themselves. Databases reach their files on their
// own.
//
// Locks of files belong to the process (fcntl), so a second lock of one file within the process
// must be refused here: the environment has a set of the locked names.

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "leveldb/c.h"
#include "leveldb/env.h"

namespace leveldb {

namespace {

Status Failed(const std::string& name, int error) {
  return error == ENOENT ? Status::NotFound(name, std::strerror(error)) : Status::IOError(name, std::strerror(error));
}

Status Failed(const std::string& name) { return Failed(name, errno); }

// An open file, closed with its owner.
class Descriptor {
 public:
  Descriptor(const std::string& name, int flags) : name_(name), fd_(::open(name.c_str(), flags | O_CLOEXEC, 0644)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { Close(); }

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const std::string& name() const { return name_; }

  bool Close() {
    const int fd = fd_;
    fd_ = -1;
    return fd < 0 || ::close(fd) == 0;
  }

 private:
  const std::string name_;
  int fd_;
};

// Makes a `File` from an open file, or says why it could not be opened.
template <typename File, typename Result>
Status Open(const std::string& name, int flags, Result** result) {
  *result = nullptr;
  File* file = new File(name, flags);
  if (!file->is_open()) {
    const Status status = Failed(name);
    delete file;
    return status;
  }
  *result = file;
  return Status::OK();
}

class PosixSequentialFile final : public SequentialFile, public Descriptor {
 public:
  using Descriptor::Descriptor;

  Status Read(size_t n, Slice* result, char* scratch) override {
    size_t filled = 0;
    while (filled < n) {
      const ssize_t got = ::read(fd(), scratch + filled, n - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Failed(name());
      if (got == 0) break;
      filled += static_cast<size_t>(got);
    }
    *result = Slice(scratch, filled);
    return Status::OK();
  }

  Status Skip(uint64_t n) override {
    return ::lseek(fd(), static_cast<off_t>(n), SEEK_CUR) < 0 ? Failed(name()) : Status::OK();
  }
};

class PosixRandomAccessFile final : public RandomAccessFile, public Descriptor {
 public:
  using Descriptor::Descriptor;

  Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const override {
    size_t filled = 0;
    while (filled < n) {
      const ssize_t got = ::pread(fd(), scratch + filled, n - filled, static_cast<off_t>(offset + filled));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Failed(name());
      if (got == 0) break;
      filled += static_cast<size_t>(got);
    }
    *result = Slice(scratch, filled);
    return Status::OK();
  }
};

// Gathers appended bytes until they are flushed, or until there are many.
class PosixWritableFile final : public WritableFile, public Descriptor {
 public:
  using Descriptor::Descriptor;
  ~PosixWritableFile() override { Close(); }

  Status Append(const Slice& data) override {
    gathered_.append(data.data(), data.size());
    return gathered_.size() < kGatheredMax ? Status::OK() : Flush();
  }

  Status Close() override {
    const Status flushed = Flush();
    return Descriptor::Close() || !flushed.ok() ? flushed : Failed(name());
  }

  Status Flush() override {
    size_t written = 0;
    while (written < gathered_.size()) {
      const ssize_t put = ::write(fd(), gathered_.data() + written, gathered_.size() - written);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        const Status status = Failed(name());
        gathered_.erase(0, written);
        return status;
      }
      written += static_cast<size_t>(put);
    }
    gathered_.clear();
    return Status::OK();
  }

  Status Sync() override {
    const Status flushed = Flush();
    if (!flushed.ok()) return flushed;
    return ::fdatasync(fd()) == 0 ? Status::OK() : Failed(name());
  }

 private:
  static const size_t kGatheredMax = 64 << 10;

  std::string gathered_;
};

class PosixFileLock final : public FileLock, public Descriptor {
 public:
  using Descriptor::Descriptor;
};

// Writes each message in a line, with the time of day.
class FileLogger final : public Logger {
 public:
  explicit FileLogger(std::FILE* file) : file_(file) {}
  ~FileLogger() override { std::fclose(file_); }

  void Logv(const char* format, std::va_list ap) override {
    timeval now;
    ::gettimeofday(&now, nullptr);
    tm parts;
    ::localtime_r(&now.tv_sec, &parts);
    char time[32];
    std::strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S", &parts);
    const std::lock_guard<std::mutex> guard(lock_);
    std::fprintf(file_, "%s.%06ld ", time, static_cast<long>(now.tv_usec));
    std::vfprintf(file_, format, ap);
    if (*format == '\0' || format[std::strlen(format) - 1] != '\n') std::fputc('\n', file_);
    std::fflush(file_);
  }

 private:
  std::mutex lock_;
  std::FILE* const file_;
};

class PosixEnv final : public Env {
 public:
  Status NewSequentialFile(const std::string& fname, SequentialFile** result) override {
    return Open<PosixSequentialFile>(fname, O_RDONLY, result);
  }
  Status NewRandomAccessFile(const std::string& fname, RandomAccessFile** result) override {
    return Open<PosixRandomAccessFile>(fname, O_RDONLY, result);
  }
  Status NewWritableFile(const std::string& fname, WritableFile** result) override {
    return Open<PosixWritableFile>(fname, O_WRONLY | O_CREAT | O_TRUNC, result);
  }
  Status NewAppendableFile(const std::string& fname, WritableFile** result) override {
    return Open<PosixWritableFile>(fname, O_WRONLY | O_CREAT | O_APPEND, result);
  }

  bool FileExists(const std::string& fname) override { return ::access(fname.c_str(), F_OK) == 0; }

  Status GetChildren(const std::string& dir, std::vector<std::string>* result) override {
    result->clear();
    DIR* open = ::opendir(dir.c_str());
    if (open == nullptr) return Failed(dir);
    while (const dirent* entry = ::readdir(open)) result->push_back(entry->d_name);
    ::closedir(open);
    return Status::OK();
  }

  Status RemoveFile(const std::string& fname) override { return Did(fname, ::unlink(fname.c_str())); }
  Status CreateDir(const std::string& dirname) override { return Did(dirname, ::mkdir(dirname.c_str(), 0755)); }
  Status RemoveDir(const std::string& dirname) override { return Did(dirname, ::rmdir(dirname.c_str())); }

  Status GetFileSize(const std::string& fname, uint64_t* file_size) override {
    struct stat found;
    *file_size = 0;
    if (::stat(fname.c_str(), &found) != 0) return Failed(fname);
    *file_size = static_cast<uint64_t>(found.st_size);
    return Status::OK();
  }

  Status RenameFile(const std::string& src, const std::string& target) override {
    return Did(src, ::rename(src.c_str(), target.c_str()));
  }

  Status LockFile(const std::string& fname, FileLock** lock) override {
    *lock = nullptr;
    const std::lock_guard<std::mutex> guard(locks_lock_);
    // Checked before the file is opened: closing it would give up the existing lock.
    if (locked_.count(fname) > 0) return Status::IOError("lock " + fname, "already held by process");
    PosixFileLock* made = nullptr;
    const Status status = Open<PosixFileLock>(fname, O_RDWR | O_CREAT, &made);
    if (!status.ok()) return status;
    if (!SetLock(made->fd(), F_WRLCK)) {
      const Status refused = Failed("lock " + fname);
      delete made;
      return refused;
    }
    locked_.insert(fname);
    *lock = made;
    return Status::OK();
  }

  Status UnlockFile(FileLock* lock) override {
    PosixFileLock* held = static_cast<PosixFileLock*>(lock);
    const std::lock_guard<std::mutex> guard(locks_lock_);
    const Status status = SetLock(held->fd(), F_UNLCK) ? Status::OK() : Failed("unlock " + held->name());
    locked_.erase(held->name());
    delete held;
    return status;
  }

  void Schedule(void (*function)(void* arg), void* arg) override {
    const std::lock_guard<std::mutex> guard(work_lock_);
    if (!works_) {
      works_ = true;
      std::thread([this] { Work(); }).detach();
    }
    work_.push_back(Job{function, arg});
    more_work_.notify_one();
  }

  void StartThread(void (*function)(void* arg), void* arg) override { std::thread(function, arg).detach(); }

  Status GetTestDirectory(std::string* path) override {
    leveldb_env_t* env = leveldb_create_default_env();
    char* found = leveldb_env_get_test_directory(env);
    path->assign(found);
    leveldb_free(found);
    leveldb_env_destroy(env);
    return Status::OK();
  }

  Status NewLogger(const std::string& fname, Logger** result) override {
    *result = nullptr;
    std::FILE* file = std::fopen(fname.c_str(), "we");
    if (file == nullptr) return Failed(fname);
    *result = new FileLogger(file);
    return Status::OK();
  }

  uint64_t NowMicros() override {
    timeval now;
    ::gettimeofday(&now, nullptr);
    return static_cast<uint64_t>(now.tv_sec) * 1000000 + static_cast<uint64_t>(now.tv_usec);
  }

  void SleepForMicroseconds(int micros) override { std::this_thread::sleep_for(std::chrono::microseconds(micros)); }

 private:
  struct Job {
    void (*function)(void* arg);
    void* arg;
  };

  static Status Did(const std::string& name, int outcome) { return outcome == 0 ? Status::OK() : Failed(name); }

  static bool SetLock(int fd, short kind) {
    struct flock lock = {};
    lock.l_type = kind;
    lock.l_whence = SEEK_SET;
    return ::fcntl(fd, F_SETLK, &lock) == 0;
  }

  // Does the scheduled work, as long as the program runs.
  void Work() {
    for (;;) {
      Job job;
      {
        std::unique_lock<std::mutex> guard(work_lock_);
        more_work_.wait(guard, [this] { return !work_.empty(); });
        job = work_.front();
        work_.pop_front();
      }
      job.function(job.arg);
    }
  }

  std::mutex locks_lock_;
  std::set<std::string> locked_;
  std::mutex work_lock_;
  std::condition_variable more_work_;
  std::deque<Job> work_;
  bool works_ = false;
};

}  // namespace

Env::Env() = default;
Env::~Env() = default;
SequentialFile::~SequentialFile() = default;
RandomAccessFile::~RandomAccessFile() = default;
WritableFile::~WritableFile() = default;
Logger::~Logger() = default;
FileLock::~FileLock() = default;
EnvWrapper::~EnvWrapper() = default;

Env* Env::Default() {
  // Never destroyed: its thread may work to the end of the program.
  static PosixEnv* const env = new PosixEnv;
  return env;
}

Status Env::NewAppendableFile(const std::string& fname, WritableFile** result) {
  *result = nullptr;
  return Status::NotSupported("NewAppendableFile", fname);
}

Status Env::RemoveFile(const std::string& fname) { return DeleteFile(fname); }
Status Env::DeleteFile(const std::string& fname) { return RemoveFile(fname); }
Status Env::RemoveDir(const std::string& dirname) { return DeleteDir(dirname); }
Status Env::DeleteDir(const std::string& dirname) { return RemoveDir(dirname); }

void Log(Logger* info_log, const char* format, ...) {
  if (info_log == nullptr) return;
  std::va_list ap;
  va_start(ap, format);
  info_log->Logv(format, ap);
  va_end(ap);
}

Status WriteStringToFile(Env* env, const Slice& data, const std::string& fname) {
  WritableFile* file;
  Status status = env->NewWritableFile(fname, &file);
  if (!status.ok()) return status;
  status = file->Append(data);
  if (status.ok()) status = file->Close();
  delete file;
  if (!status.ok()) env->RemoveFile(fname);
  return status;
}

Status ReadFileToString(Env* env, const std::string& fname, std::string* data) {
  data->clear();
  SequentialFile* file;
  Status status = env->NewSequentialFile(fname, &file);
  if (!status.ok()) return status;
  std::string part(8192, '\0');
  for (;;) {
    Slice read;
    status = file->Read(part.size(), &read, &part[0]);
    if (!status.ok() || read.empty()) break;
    data->append(read.data(), read.size());
  }
  delete file;
  return status;
}

}  // namespace leveldb
