package disk

// minMapped is the size from which the file of a state is mapped into memory instead of read.
//
// The objects of a mapped state stay in the file. Pages that no request reads need no memory, and
// the operating system can take the others back and read them again. Three properties of the file
// make this safe:
//
//   - Nothing changes the file: a checkpoint writes it under another name, syncs and renames it.
//   - It stays mapped until the process ends, because objects that are in use point into it. When
//     a later checkpoint removes it, its space on disk is free after the process has ended.
//   - Load has compared its checksums. If the disk cannot read a page later, the process ends with
//     SIGBUS, and the next start names the damage.
const minMapped = 16 << 20

// mappable is a reader whose content can be mapped into memory.
type mappable interface {
	// Map returns the content, which is read-only and valid until the process ends; nil if it is
	// small or cannot be mapped.
	Map() []byte
}

// mapState returns the content of a file in memory, or nil if it must be read.
func mapState(r reader) []byte {
	if m, ok := r.(mappable); ok {
		return m.Map()
	}
	return nil
}
