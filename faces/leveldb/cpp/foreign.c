/* Ends a program at its start, if it was compiled with LevelDB's own C++ headers and has found this
   library.

   For the linker the functions of our C++ classes have other names than the functions of LevelDB's
   classes (EVENDB_LEVELDB_OWN in leveldb/export.h). So such a program misses functions, and would
   end when it calls the first of them: the dynamic loader looks functions up at their first call,
   unless it is told to look them up at the start. This code does it at the start. It goes through
   the functions that each loaded file calls. If nobody has one of LevelDB's functions, it ends the
   program as the loader would end it.

   It looks only at files that ask for a library of this name. */

#ifdef __linux__

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if __ELF_NATIVE_CLASS == 64
#define BIND_OF(info) ELF64_ST_BIND(info)
#define SYMBOL_OF(info) ELF64_R_SYM(info)
#else
#define BIND_OF(info) ELF32_ST_BIND(info)
#define SYMBOL_OF(info) ELF32_R_SYM(info)
#endif

/* The parts to which a loaded file's dynamic section leads. */
struct parts {
  const char* texts;
  const ElfW(Sym) * symbols;
  const char* calls;
  size_t calls_bytes;
  size_t call_bytes;
};

static int begins(const char* text, const char* with) { return strncmp(text, with, strlen(with)) == 0; }

/* Some loaders add the file's load address to these values, and others do not. */
static const void* place(const struct link_map* file, const ElfW(Dyn) * entry) {
  ElfW(Addr) at = entry->d_un.d_ptr;
  return (const void*)(at < file->l_addr ? at + file->l_addr : at);
}

static struct parts parts_of(const struct link_map* file) {
  struct parts parts = {NULL, NULL, NULL, 0, sizeof(ElfW(Rela))};
  for (const ElfW(Dyn)* entry = file->l_ld; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_STRTAB) parts.texts = place(file, entry);
    if (entry->d_tag == DT_SYMTAB) parts.symbols = place(file, entry);
    if (entry->d_tag == DT_JMPREL) parts.calls = place(file, entry);
    if (entry->d_tag == DT_PLTRELSZ) parts.calls_bytes = entry->d_un.d_val;
    if (entry->d_tag == DT_PLTREL && entry->d_un.d_val == DT_REL) parts.call_bytes = sizeof(ElfW(Rel));
  }
  return parts;
}

static int asks_for_us(const struct link_map* file, const char* texts) {
  for (const ElfW(Dyn)* entry = file->l_ld; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_NEEDED && begins(texts + entry->d_un.d_val, "libleveldb.so")) return 1;
  }
  return 0;
}

/* The first function of LevelDB's C++ classes that the file calls and that nobody has; NULL if
   there is none. */
static const char* missing(const struct link_map* file, const struct parts* parts) {
  /* This handle finds names as the file itself finds them. */
  void* handle = dlopen(file->l_name[0] == 0 ? NULL : file->l_name, RTLD_LAZY | RTLD_NOLOAD);
  const char* found = NULL;
  if (handle == NULL) return NULL;
  for (size_t at = 0; at < parts->calls_bytes && found == NULL; at += parts->call_bytes) {
    /* ElfW(Rela) begins as ElfW(Rel) does. */
    const ElfW(Rel)* call = (const ElfW(Rel)*)(parts->calls + at);
    const ElfW(Sym)* symbol = parts->symbols + SYMBOL_OF(call->r_info);
    const char* name = parts->texts + symbol->st_name;
    if (symbol->st_shndx != SHN_UNDEF || BIND_OF(symbol->st_info) != STB_GLOBAL) continue;
    if (!begins(name, "_ZN7leveldb") && !begins(name, "_ZNK7leveldb")) continue;
    if (dlsym(handle, name) == NULL) found = name;
  }
  dlclose(handle);
  return found;
}

__attribute__((constructor)) static void refuse_foreign_programs(void) {
  for (const struct link_map* file = _r_debug.r_map; file != NULL; file = file->l_next) {
    const struct parts parts = parts_of(file);
    if (parts.texts == NULL || parts.symbols == NULL || parts.calls == NULL) continue;
    if (!asks_for_us(file, parts.texts)) continue;
    const char* name = missing(file, &parts);
    if (name == NULL) continue;
    fprintf(stderr,
            "libleveldb.so of EvenDB: %s was compiled with LevelDB's own C++ headers (it calls %s), and "
            "cannot run with this library. Compile it with EvenDB's headers, or run it with LevelDB's "
            "library.\n",
            file->l_name[0] == 0 ? program_invocation_name : file->l_name, name);
    /* The loader ends a program in this way. */
    _exit(127);
  }
}

#endif
