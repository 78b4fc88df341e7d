package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
)

// moduleFile is a file of a module. It implements golang.org/x/mod/zip.File.
type moduleFile struct {
	name string
	// from is the file with the content, unless content is set.
	from    string
	content []byte
}

func (f moduleFile) Path() string { return f.name }

func (f moduleFile) Lstat() (fs.FileInfo, error) {
	info, err := os.Lstat(f.from)
	if err != nil || f.content == nil {
		return info, err
	}
	return sized{info, int64(len(f.content))}, nil
}

func (f moduleFile) Open() (io.ReadCloser, error) {
	if f.content != nil {
		return io.NopCloser(bytes.NewReader(f.content)), nil
	}
	return os.Open(f.from)
}

// sized is a FileInfo with another size.
type sized struct {
	fs.FileInfo
	size int64
}

func (s sized) Size() int64 { return s.size }
