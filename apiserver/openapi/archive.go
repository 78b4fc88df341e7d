package openapi

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// archive reads packed documents.
type archive struct {
	packed  string
	entries map[string]*zip.File
}

// openArchive opens a zip archive. The empty string is an archive without entries.
func openArchive(packed string) (*archive, error) {
	a := &archive{packed: packed, entries: map[string]*zip.File{}}
	if packed == "" {
		return a, nil
	}
	r, err := zip.NewReader(strings.NewReader(packed), int64(len(packed)))
	if err != nil {
		return nil, fmt.Errorf("open packed documents: %w", err)
	}
	for _, f := range r.File {
		a.entries[f.Name] = f
	}
	return a, nil
}

// plain returns the content of an entry.
func (a *archive) plain(name string) ([]byte, error) {
	f, ok := a.entries[name]
	if !ok {
		return nil, fmt.Errorf("packed document %s: %w", name, ErrNoDocument)
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("packed document %s: %w", name, err)
	}
	defer r.Close()
	data := make([]byte, f.UncompressedSize64)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("packed document %s: %w", name, err)
	}
	return data, nil
}

// gzip returns the content of an entry as a gzip file. Both formats hold the same deflate stream;
// only head and tail differ (RFC 1952).
func (a *archive) gzip(name string) ([]byte, error) {
	f, ok := a.entries[name]
	if !ok {
		return nil, fmt.Errorf("packed document %s: %w", name, ErrNoDocument)
	}
	offset, err := f.DataOffset()
	if err != nil {
		return nil, fmt.Errorf("packed document %s: %w", name, err)
	}
	out := make([]byte, 0, f.CompressedSize64+18)
	out = append(out, 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255)
	out = append(out, a.packed[offset:offset+int64(f.CompressedSize64)]...)
	out = binary.LittleEndian.AppendUint32(out, f.CRC32)
	return binary.LittleEndian.AppendUint32(out, uint32(f.UncompressedSize64)), nil
}

// paths lists the entries of a folder with a suffix, without both: "api/v1", "apis/apps/v1",
// "version".
func (a *archive) paths(folder, suffix string) map[string]*zip.File {
	out := map[string]*zip.File{}
	for name, f := range a.entries {
		if path, ok := strings.CutPrefix(name, folder); ok {
			if path, ok = strings.CutSuffix(path, suffix); ok {
				out[path] = f
			}
		}
	}
	return out
}
