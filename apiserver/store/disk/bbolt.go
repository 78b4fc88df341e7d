package disk

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"

	"kelson.dev/apiserver/store/archive"
)

// oldTree reads a file of the first format, which is a bbolt database: a file of pages. The first
// two pages are meta pages; the newer one has the root of the current tree.
//
//	page     id (8) kind (2) elements (2) further pages (4) …
//	meta     tag (4) version (4) page size (4) flags (4) root (8) sequence (8) free pages (8) pages (8) transaction (8) checksum (8)
//	branch   elements: position (4) key size (4) page (8)
//	leaf     elements: flags (4) position (4) key size (4) value size (4)
//
// Numbers are little-endian; a position is relative to its element. The value of a bucket is the
// page of its root (8) and a sequence (8); if the page is 0, a leaf follows. Pages other than meta
// pages have no checksums. The reader therefore validates everything it reads, and reads no page
// twice.
type oldTree struct {
	file     io.ReaderAt
	size     int64
	pageSize int64
	root     uint64
	left     int64 // number of pages that may still be read
}

const (
	oldTag        = 0xED0CDAED
	oldVersion    = 2
	oldPageHead   = 16
	oldMetaSize   = 64
	oldElement    = 16
	oldBranch     = 1
	oldLeaf       = 2
	oldIsBucket   = 1
	oldBucketHead = 16
	oldDepth      = 32
)

func openOld(file io.ReaderAt, size int64) (*oldTree, error) {
	t := &oldTree{file: file, size: size}
	newest := uint64(0)
	// If the first meta page is damaged, the second has the page size, which is also its offset.
	for _, at := range []int64{0, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10} {
		page := make([]byte, oldPageHead+oldMetaSize)
		if n, err := file.ReadAt(page, at); n < len(page) {
			if err := notEOF(err); err != nil {
				return nil, err
			}
			break
		}
		meta := page[oldPageHead:]
		sum := fnv.New64a()
		sum.Write(meta[:oldMetaSize-8])
		if binary.LittleEndian.Uint32(meta) != oldTag ||
			binary.LittleEndian.Uint64(meta[oldMetaSize-8:]) != sum.Sum64() {
			continue
		}
		if version := binary.LittleEndian.Uint32(meta[4:]); version != oldVersion {
			return nil, fmt.Errorf("format version %d is not supported, want %d", version, oldVersion)
		}
		pageSize := int64(binary.LittleEndian.Uint32(meta[8:]))
		if pageSize < 1<<10 || pageSize > 64<<10 || at != 0 && at != pageSize {
			continue
		}
		if transaction := binary.LittleEndian.Uint64(meta[48:]); t.pageSize == 0 || transaction > newest {
			newest, t.pageSize, t.root = transaction, pageSize, binary.LittleEndian.Uint64(meta[16:])
		}
	}
	if t.pageSize == 0 {
		return nil, archive.ErrForeign
	}
	t.left = size / t.pageSize
	return t, nil
}

func oldDamage(page uint64, what string) error {
	return fmt.Errorf("%w: page %d %s", archive.ErrDamaged, page, what)
}

// bucket calls each with the keys and values of a bucket, in order. It returns false if there is no
// bucket of that name.
func (t *oldTree) bucket(name string, each func(key, value []byte) error) (found bool, err error) {
	var value []byte
	err = t.walk(t.root, 0, func(key, v []byte, bucket bool) error {
		if bucket && string(key) == name {
			value = v
		}
		return nil
	})
	if err != nil || value == nil {
		return false, err
	}
	if len(value) < oldBucketHead {
		return false, oldDamage(t.root, "has an incomplete bucket")
	}
	give := func(key, v []byte, bucket bool) error {
		if bucket {
			return nil
		}
		return each(key, v)
	}
	if root := binary.LittleEndian.Uint64(value); root > 0 {
		return true, t.walk(root, 0, give)
	}
	return true, t.page(t.root, value[oldBucketHead:], 0, give)
}

// walk reads the subtree of a page.
func (t *oldTree) walk(id uint64, depth int, each func(key, value []byte, bucket bool) error) error {
	if id >= uint64(t.size/t.pageSize) || depth > oldDepth {
		return oldDamage(id, "is outside of the file")
	}
	head := make([]byte, oldPageHead)
	if _, err := t.file.ReadAt(head, int64(id)*t.pageSize); err != nil {
		return err
	}
	pages := int64(binary.LittleEndian.Uint32(head[12:])) + 1
	if t.left -= pages; t.left < 0 || pages > t.size/t.pageSize-int64(id) {
		return oldDamage(id, "is referenced twice or is too long")
	}
	if binary.LittleEndian.Uint64(head) != id {
		return oldDamage(id, "has the id of another page")
	}
	content := make([]byte, pages*t.pageSize)
	if _, err := t.file.ReadAt(content, int64(id)*t.pageSize); err != nil {
		return err
	}
	return t.page(id, content, depth, each)
}

// page reads the content of a page and its subtrees.
func (t *oldTree) page(id uint64, content []byte, depth int, each func(key, value []byte, bucket bool) error) error {
	if len(content) < oldPageHead {
		return oldDamage(id, "has an incomplete header")
	}
	kind, count := binary.LittleEndian.Uint16(content[8:]), int(binary.LittleEndian.Uint16(content[10:]))
	if kind != oldBranch && kind != oldLeaf {
		return oldDamage(id, "has an unknown kind")
	}
	if oldPageHead+count*oldElement > len(content) {
		return oldDamage(id, "has too many elements")
	}
	room := uint64(len(content)) // elements do not overlap
	for i := range count {
		element := content[oldPageHead+i*oldElement:]
		if kind == oldBranch {
			if err := t.walk(binary.LittleEndian.Uint64(element[8:]), depth+1, each); err != nil {
				return err
			}
			continue
		}
		at, keySize, valueSize := uint64(binary.LittleEndian.Uint32(element[4:])),
			uint64(binary.LittleEndian.Uint32(element[8:])), uint64(binary.LittleEndian.Uint32(element[12:]))
		if at+keySize+valueSize > uint64(len(element)) || keySize+valueSize > room {
			return oldDamage(id, fmt.Sprintf("has an element %d outside of the page", i))
		}
		room -= keySize + valueSize
		key, value := element[at:at+keySize], element[at+keySize:at+keySize+valueSize]
		if err := each(key, value, binary.LittleEndian.Uint32(element)&oldIsBucket != 0); err != nil {
			return err
		}
	}
	return nil
}
