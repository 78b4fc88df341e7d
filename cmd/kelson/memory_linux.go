package main

import (
	"bufio"
	"debug/elf"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// forgetStart gives back what only the start needed: pages of the binary, most of them the tables and initialisers of packages that
// a server uses once or never. They are mapped from the file and never changed, so what is needed again is read again, from the page
// cache. Pages of segments that may be written are left alone, those too that are read-only by now: the loader has written into them.
func forgetStart() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	constant, err := constantParts(self)
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		// address perms offset dev inode pathname
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[5] != self || strings.Contains(fields[1], "w") {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		begin, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		offset, err3 := strconv.ParseUint(fields[2], 16, 64)
		if err1 == nil && err2 == nil && err3 == nil && constant(offset) {
			unix.Syscall(unix.SYS_MADVISE, uintptr(begin), uintptr(end-begin), unix.MADV_DONTNEED)
		}
	}
}

// constantParts tells the offsets of a binary from which nothing is mapped that may ever be written.
func constantParts(binary string) (func(offset uint64) bool, error) {
	f, err := elf.Open(binary)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	page := uint64(os.Getpagesize())
	var parts [][2]uint64
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_W == 0 {
			parts = append(parts, [2]uint64{p.Off / page * page, p.Off + p.Filesz})
		}
	}
	return func(offset uint64) bool {
		for _, part := range parts {
			if part[0] <= offset && offset < part[1] {
				return true
			}
		}
		return false
	}, nil
}
