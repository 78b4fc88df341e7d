package footprint

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Release drops the pages of the program's executable from this process's memory, if at least many
// bytes of files are resident. The pages stay in the page cache, from which the next access maps
// them again, sixteen at a time; this delays the next request by tenths of a millisecond. On
// systems other than Linux, Release does nothing.
func Release(many int) {
	if filePages() < many {
		return
	}
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer smaps.Close()
	for _, m := range cleanMappings(smaps, self) {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.begin, m.end-m.begin, syscall.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ begin, end uintptr }

// cleanMappings returns the read-only mappings of a file without modified pages, whose content is
// therefore in the file too. The dynamic linker writes to some mappings before it protects them.
func cleanMappings(smaps io.Reader, file string) (clean []mapping) {
	var this mapping
	wanted := false
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		line := lines.Text()
		fields := strings.Fields(line)
		if m, access, ok := parseMapping(fields); ok {
			this, wanted = m, access[1] == '-' && strings.HasSuffix(line, " "+file)
		} else if wanted && len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0" {
			clean = append(clean, this)
		}
	}
	return clean
}

// parseMapping parses the first line of an smaps entry: addresses, access, offset, device, inode
// and file.
func parseMapping(fields []string) (m mapping, access string, ok bool) {
	if len(fields) < 6 || len(fields[1]) != 4 {
		return m, "", false
	}
	from, to, ok := strings.Cut(fields[0], "-")
	begin, err1 := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	return mapping{uintptr(begin), uintptr(end)}, fields[1], ok && err1 == nil && err2 == nil
}

// filePages returns the resident file memory of this process in bytes.
func filePages() int {
	statm, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(statm))
	if err != nil || len(fields) < 3 {
		return 0
	}
	pages, err := strconv.Atoi(fields[2])
	if err != nil {
		return 0
	}
	return pages * os.Getpagesize()
}
