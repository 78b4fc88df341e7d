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
