package openapi

import (
	"archive/zip"
	_ "embed" // for the archive
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"time"
)

//go:embed kubernetes.zip
var kubernetes string

// archive reads the packed documents.
type archive struct {
	entries map[string]*zip.File
	opened  time.Time
}

func openArchive() (*archive, error) {
	r, err := zip.NewReader(strings.NewReader(kubernetes), int64(len(kubernetes)))
	if err != nil {
		return nil, fmt.Errorf("open packed documents: %w", err)
	}
	a := &archive{entries: make(map[string]*zip.File, len(r.File)), opened: time.Now()}
	for _, f := range r.File {
		a.entries[f.Name] = f
	}
	return a, nil
}

// plain is an entry's content.
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

// gzip is an entry's content as a gzip file. Both formats hold the same deflate stream, only head and tail differ (RFC 1952).
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
	out = append(out, kubernetes[offset:offset+int64(f.CompressedSize64)]...)
	out = binary.LittleEndian.AppendUint32(out, f.CRC32)
	return binary.LittleEndian.AppendUint32(out, uint32(f.UncompressedSize64)), nil
}

// paths lists what stands in a folder with a suffix removed: "api/v1", "apis/apps/v1", "version".
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
