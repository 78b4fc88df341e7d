package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// volumes mounts the volumes and the files of the image.
//
// The pod's processes may have written to some of the directories, so all paths in the new root
// directory and in volumes are opened in an os.Root, and mounted through their descriptors.
func (v *rootFS) volumes() error {
	var shadows []string
	for _, m := range v.Mounts {
		added, err := v.mount(m)
		shadows = append(shadows, added...)
		if err != nil {
			return fmt.Errorf("mount at %s: %w", m.To, err)
		}
	}
	for _, dir := range shadows {
		if err := unix.MountSetattr(unix.AT_FDCWD, v.at(dir), 0,
			&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("make %s read-only: %w", dir, err)
		}
	}
	return nil
}

// mount mounts one volume or file. It returns the directories that it replaced to create the mount
// point.
func (v *rootFS) mount(m mount) (shadows []string, err error) {
	from, err := v.source(m)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(v.Mount)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name := strings.TrimPrefix(m.To, "/")
	if name == "" {
		return nil, errors.New("a volume can't replace the root directory")
	}
	to, err := openMountPoint(root, name, info.IsDir())
	if errors.Is(err, unix.EROFS) {
		var dir string
		if dir, err = v.shadow(root, name); err != nil {
			return nil, err
		}
		shadows = []string{dir}
		to, err = openMountPoint(root, name, info.IsDir())
	}
	if err != nil {
		return shadows, err
	}
	defer to.Close()
	if err := unix.Mount(pathOf(from), pathOf(to), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return shadows, err
	}
	// to is below the new mount; open the mount itself
	mounted, err := openBeneath(root, name)
	if err != nil {
		return shadows, err
	}
	defer mounted.Close()
	attributes := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if m.ReadOnly {
		attributes.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(int(mounted.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attributes); err != nil {
		return shadows, fmt.Errorf("set mount attributes: %w", err)
	}
	return shadows, nil
}

func pathOf(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// source opens the file or directory that a mount shows.
func (v *rootFS) source(m mount) (*os.File, error) {
	if m.SubPath == "" {
		return v.openSource(m)
	}
	dir, err := v.openSource(m)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	root, err := os.OpenRoot(pathOf(dir))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if _, err := root.Stat(m.SubPath); errors.Is(err, fs.ErrNotExist) && m.Create {
		if err := v.makeSubPath(root, m.SubPath); err != nil {
			return nil, fmt.Errorf("create subPath %s: %w", m.SubPath, err)
		}
	}
	f, err := openBeneath(root, m.SubPath)
	if err != nil {
		return nil, fmt.Errorf("open subPath %s: %w", m.SubPath, err)
	}
	return f, nil
}

// openSource opens a volume, and checks that a hostPath shows nothing that is hidden. The check is
// here because another pod may have changed a link in the path.
func (v *rootFS) openSource(m mount) (*os.File, error) {
	f, err := os.OpenFile(m.From, unix.O_PATH, 0)
	if err != nil || !m.HostPath {
		return f, err
	}
	real, err := os.Readlink(pathOf(f))
	if err == nil {
		err = mayShow(real, v.NoHostPaths)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openBeneath opens a file or directory only to mount it or at it. Unlike root.OpenFile with
// O_PATH, it follows a link at the end of the path.
func openBeneath(root *os.Root, name string) (*os.File, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for { // a rename during the lookup makes it fail with EAGAIN
		fd, err := unix.Openat2(int(dir.Fd()), name, &how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), name), nil
		case !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN):
			return nil, &os.PathError{Op: "openat2", Path: name, Err: err}
		}
	}
}

// makeSubPath creates a directory in a volume, owned by the pod's user.
func (v *rootFS) makeSubPath(root *os.Root, name string) error {
	at := ""
	for part := range strings.SplitSeq(filepath.Clean(name), "/") {
		at = filepath.Join(at, part)
		if err := root.Mkdir(at, 0o755); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return err
		}
		if v.User != 0 {
			if err := root.Lchown(at, int(v.User), int(v.User)); err != nil {
				return err
			}
		}
	}
	return nil
}

// openMountPoint opens a directory or file to mount at, and creates it if needed.
func openMountPoint(root *os.Root, name string, dir bool) (*os.File, error) {
	if f, err := openBeneath(root, name); !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	parent := name
	if !dir {
		parent = filepath.Dir(name)
	}
	if err := root.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	if !dir {
		f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		f.Close()
	}
	return openBeneath(root, name)
}

// shadow replaces the last existing directory in the path name, which is read-only, with a writable
// one that has the same entries. It returns the path of the directory.
func (v *rootFS) shadow(root *os.Root, name string) (string, error) {
	dir := filepath.Dir(name)
	for {
		if info, err := root.Stat(dir); err == nil && info.IsDir() {
			break
		} else if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s is not a directory", dir)
		}
		dir = filepath.Dir(dir)
	}
	original, err := root.Open(dir)
	if err != nil {
		return "", err
	}
	defer original.Close()
	entries, err := original.ReadDir(-1)
	if err != nil {
		return "", err
	}
	if err := unix.Mount("tmpfs", pathOf(original), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
		"mode=755,size=1m"); err != nil {
		return "", fmt.Errorf("replace %s: %w", dir, err)
	}
	replaced, err := root.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer replaced.Close()
	for _, entry := range entries {
		from := filepath.Join(pathOf(original), entry.Name())
		if entry.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(from)
			if err == nil {
				err = replaced.Symlink(target, entry.Name())
			}
			if err != nil {
				return "", err
			}
			continue
		}
		to, err := openMountPoint(replaced, entry.Name(), entry.IsDir())
		if err != nil {
			return "", err
		}
		err = unix.Mount(from, pathOf(to), "", unix.MS_BIND|unix.MS_REC, "")
		to.Close()
		if err != nil {
			return "", fmt.Errorf("replace %s: %s: %w", dir, entry.Name(), err)
		}
	}
	return dir, nil
}
