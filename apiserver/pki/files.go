package pki

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"kelson.dev/internal/durable"
)

// newSuffix is the suffix of files that are not renamed yet to their names.
const newSuffix = ".new"

// content is a file to be created.
type content struct {
	name string
	data []byte
	mode os.FileMode
}

// create creates files in one directory, and the directory with mode 0700 if it does not exist. All
// files are complete and synced before the first one gets its name. A crash may come between the
// renames; see resume.
func create(files ...content) error {
	dir := filepath.Dir(files[0].name)
	_, missing := os.Stat(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, f := range files {
		if err := writeSynced(f.name+newSuffix, f.data, f.mode); err != nil {
			return errors.Join(err, remove(files))
		}
	}
	for _, f := range files {
		if err := os.Rename(f.name+newSuffix, f.name); err != nil {
			return err
		}
	}
	err := durable.Folder(dir)
	if missing != nil {
		err = errors.Join(err, durable.Folder(filepath.Dir(dir)))
	}
	return err
}

// remove removes the files that create has written so far, so that they take no space.
func remove(files []content) error {
	var errs []error
	for _, f := range files {
		if err := os.Remove(f.name + newSuffix); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func writeSynced(name string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// resume renames a certificate or its key, or both, if a crash came after create had written them.
// It does nothing if the two do not belong together.
func resume(certFile, keyFile string) error {
	cert, key := certFile, keyFile
	for _, name := range []*string{&cert, &key} {
		if _, err := os.Stat(*name); errors.Is(err, fs.ErrNotExist) {
			*name += newSuffix
		}
	}
	if cert == certFile && key == keyFile {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return nil
	}
	// a rename to the same name does nothing
	return errors.Join(os.Rename(cert, certFile), os.Rename(key, keyFile), durable.Folder(filepath.Dir(certFile)))
}
