package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// file is a file of an archive.
type file struct {
	name string // with slashes
	mode fs.FileMode
	// content, or the file that has it
	content []byte
	from    string
}

// open returns the content and its size.
func (f file) open() (io.ReadCloser, int64, error) {
	if f.from == "" {
		return io.NopCloser(strings.NewReader(string(f.content))), int64(len(f.content)), nil
	}
	in, err := os.Open(f.from)
	if err != nil {
		return nil, 0, err
	}
	info, err := in.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, in.Close())
	}
	return in, info.Size(), nil
}

// writeTarball writes a tar file, compressed with gzip, whose files belong to root and have the
// given time.
func writeTarball(name string, at time.Time, files []file) (err error) {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	packed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(packed)
	for _, f := range files {
		content, size, err := f.open()
		if err != nil {
			return err
		}
		err = w.WriteHeader(&tar.Header{Name: f.name, Mode: int64(f.mode), Size: size, ModTime: at,
			Typeflag: tar.TypeReg, Format: tar.FormatUSTAR})
		if err == nil {
			_, err = io.Copy(w, content)
		}
		if err = errors.Join(err, content.Close()); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), packed.Close())
}

// writeZip writes a zip file, for Windows.
func writeZip(name string, at time.Time, files []file) (err error) {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := zip.NewWriter(out)
	for _, f := range files {
		content, _, err := f.open()
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		to, err := w.CreateHeader(h)
		if err == nil {
			_, err = io.Copy(to, content)
		}
		if err = errors.Join(err, content.Close()); err != nil {
			return err
		}
	}
	return w.Close()
}

// unpack writes the files of a tar file to a folder, which it creates.
func unpack(in io.Reader, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeXGlobalHeader:
		case tar.TypeDir:
			err = root.MkdirAll(path.Clean(h.Name), 0o755)
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, h.Name)
		case tar.TypeReg:
			err = writeFile(root, h.Name, fs.FileMode(h.Mode).Perm(), r)
		default:
			err = fmt.Errorf("type %q is not expected in a commit", h.Typeflag)
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", h.Name, err)
		}
	}
}

func writeFile(root *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	out, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return errors.Join(err, out.Close())
}

// writeChecksums writes SHA256SUMS, as sha256sum --check reads it, for all files below a folder.
func writeChecksums(dir string) error {
	var sums strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		sum, err := checksum(name)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, name)
		fmt.Fprintf(&sums, "%s  %s\n", sum, filepath.ToSlash(below))
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// checksum returns the SHA-256 checksum of a file in hexadecimal.
func checksum(name string) (string, error) {
	in, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer in.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, in); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), nil
}
