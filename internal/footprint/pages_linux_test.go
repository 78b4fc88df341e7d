package footprint

import (
	"strings"
	"testing"

	"kelson.dev/internal/assert"
)

// Only unmodified mappings of the executable are released.
func TestCleanMappings(t *testing.T) {
	const smaps = `00400000-04a00000 r-xp 00000000 fe:01 77 /usr/bin/kelson
Size:              71680 kB
Rss:               40000 kB
Anonymous:             0 kB
04a00000-07f00000 r--p 04600000 fe:01 77 /usr/bin/kelson
Anonymous:             0 kB
07f00000-07f10000 r--p 07b00000 fe:01 77 /usr/bin/kelson
Anonymous:             8 kB
07f10000-08000000 rw-p 07b10000 fe:01 77 /usr/bin/kelson
Anonymous:             0 kB
c000000000-c004000000 rw-p 00000000 00:00 0
Anonymous:         65536 kB
7f0000000000-7f0000010000 r-xp 00000000 fe:01 12 /usr/lib/libc.so.6
Anonymous:             0 kB
`
	got := cleanMappings(strings.NewReader(smaps), "/usr/bin/kelson")
	assert.Slice(t, got, []mapping{{0x400000, 0x4a00000}, {0x4a00000, 0x7f00000}})
}

// Release reduces the resident file memory.
func TestReleasePages(t *testing.T) {
	before := filePages()
	Release(before + 1<<30)
	Release(0)
	if after := filePages(); after >= before {
		t.Errorf("%d KB of files are in memory, before %d", after>>10, before>>10)
	}
}
