//go:build linux || darwin

package disk

import (
	"math"

	"golang.org/x/sys/unix"
)

// Map implements reader.
func (r osReader) Map() []byte {
	if r.size < max(r.mapFrom, 1) || r.size > math.MaxInt {
		return nil
	}
	data, err := unix.Mmap(int(r.Fd()), 0, int(r.size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil // some file systems cannot map files
	}
	return data
}

// forget releases the pages of a mapped file that were read. Reading them again is cheap as long as
// the operating system has them in its cache.
func forget(mapped []byte) { _ = unix.Madvise(mapped, unix.MADV_DONTNEED) }
