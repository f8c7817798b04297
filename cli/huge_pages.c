/* Asks for huge pages (2 MiB) for what a compiler allocates: a fifth of its time is faults of 4 KiB pages.
   Preloaded by cli/build where the system gives huge pages to those that ask (madvise). */
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { huge_page_bytes = 2 << 20 };

void* mmap(void* address, size_t length, int protection, int flags, int file, off_t offset) {
  void* const memory = (void*)syscall(SYS_mmap, address, length, protection, flags, file, offset);
  if (memory != MAP_FAILED && (flags & MAP_ANONYMOUS) && length >= huge_page_bytes) madvise(memory, length, MADV_HUGEPAGE);
  return memory;
}

/* The same function by its other name: off_t has 64 bits where this is used. */
void* mmap64(void* address, size_t length, int protection, int flags, int file, off_t offset) {
  return mmap(address, length, protection, flags, file, offset);
}
