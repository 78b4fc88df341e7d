//go:build unix

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/kubernetes/node"
)

// The directories of volumes: below a pod's directory, and below Config.Root.
const (
	volumesDir = ".volumes"
	claimsDir  = ".claims"
)

// mount is a directory or file of the machine in a container's root directory.
type mount struct {
	From string
	// SubPath is a path in From, which is created if it does not exist and Create is set.
	SubPath string
	Create  bool
	// To is the path in the container.
	To       string
	ReadOnly bool
	// HostPath is set if the pod chose From.
	HostPath bool
}

// SetVolume implements node.Mounter.
func (s *sandbox) SetVolume(v node.Volume) error {
	if s.runtime.confinement != ConfinedRoot {
		return nil // Sandbox refused all volumes except the service account's
	}
	m := mount{From: filepath.Join(s.dir, volumesDir, v.Name)}
	switch {
	case v.HostPath != nil:
		if err := s.prepareHostPath(v.HostPath); err != nil {
			return err
		}
		m.From, m.HostPath, m.Create = v.HostPath.Path, true, true
	case v.Handle != "":
		m.Create = true
		m.From = filepath.Join(s.runtime.config.Root, claimsDir, strings.ReplaceAll(v.Handle, "/", "_"))
		if err := os.MkdirAll(m.From, 0o700); err != nil {
			return err
		}
		if err := s.takeOwnership(m.From); err != nil {
			return err
		}
	case v.Files != nil:
		m.ReadOnly = true
		files := v.Files
		if s.shared {
			files = slices.Clone(files)
			for i := range files {
				files[i].Mode |= 0o440
			}
		}
		if err := writeVolume(m.From, files, s.chown); err != nil {
			return err
		}
	default:
		m.Create = true
		if err := os.MkdirAll(m.From, 0o777); err != nil {
			return err
		}
		if err := s.chown(m.From); err != nil {
			return err
		}
		mode := os.FileMode(0o777)
		if s.shared { // new files get the group of the directory
			mode |= os.ModeSetgid
		}
		if err := os.Chmod(m.From, mode); err != nil { // independent of the umask
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources[v.Name] = m
	return nil
}

// VolumeBytes implements [node.Measurer].
func (s *sandbox) VolumeBytes(name string) (size int64, err error) {
	s.mu.Lock()
	m, ok := s.sources[name]
	s.mu.Unlock()
	if !ok {
		return 0, nil
	}
	// The pod may replace directories by links meanwhile.
	root, err := os.OpenRoot(m.From)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the pod has removed it meanwhile
		}
		if err != nil {
			return err
		}
		if info, err := entry.Info(); err == nil {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				size += stat.Blocks * 512
			}
		}
		return nil
	})
	return size, err
}

// chown makes the pod's user, and the group of its volumes, the owner of a file that is not a link.
func (s *sandbox) chown(name string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(name, int(s.user), int(s.volumeGroup))
}

// takeOwnership makes the pod's user, and the group of its volumes, the owner of a directory with
// all its contents, which an earlier pod wrote.
func (s *sandbox) takeOwnership(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := s.share(root, name, entry); err != nil {
			return err
		}
		return root.Lchown(name, int(s.user), int(s.volumeGroup))
	})
}

// share lets members of the group of the pod's volumes use a file, if the pod chose the group.
func (s *sandbox) share(root *os.Root, name string, entry fs.DirEntry) error {
	if !s.shared || !entry.IsDir() && !entry.Type().IsRegular() {
		return nil
	}
	info, err := entry.Info()
	if err != nil {
		return err
	}
	mode := info.Mode().Perm() | 0o660
	if entry.IsDir() {
		mode |= 0o110 | os.ModeSetgid
	}
	return root.Chmod(name, mode)
}

// mounts returns what to mount for a container: the files of its image, then its volumes, those
// that contain others first.
func (s *sandbox) mounts(spec node.ContainerSpec) ([]mount, error) {
	if s.runtime.confinement != ConfinedRoot {
		return nil, nil
	}
	mounts, err := s.runtime.imageMounts(spec.Container.Image)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var volumes []mount
	for i, wanted := range spec.Container.VolumeMounts {
		m, ok := s.sources[wanted.Name]
		if !ok {
			return nil, fmt.Errorf("volume %q is not mounted", wanted.Name)
		}
		if i < len(spec.SubPaths) {
			m.SubPath = spec.SubPaths[i]
		}
		m.To = filepath.Clean("/" + wanted.MountPath)
		m.ReadOnly = m.ReadOnly || wanted.ReadOnly
		volumes = append(volumes, m)
	}
	slices.SortStableFunc(volumes, func(a, b mount) int { return len(a.To) - len(b.To) })
	return append(mounts, volumes...), nil
}

// imageMounts returns what to mount for the files of an image: the entries of its directory, and
// those of its directories that the root directory already has. It returns none if the image has no
// directory.
func (r *Runtime) imageMounts(image string) ([]mount, error) {
	dir, ok := r.config.Images[image]
	if !ok {
		return nil, nil
	}
	mounts, err := entriesOf(dir, "/")
	if err != nil {
		return nil, fmt.Errorf("read image %q: %w", image, err)
	}
	return mounts, nil
}

// entriesOf returns the mounts of a directory's entries at the path to.
func entriesOf(dir, to string) (mounts []mount, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		m := mount{From: filepath.Join(dir, entry.Name()), To: filepath.Join(to, entry.Name()), ReadOnly: true}
		if !entry.IsDir() || !hasDirectory(m.To) {
			mounts = append(mounts, m)
			continue
		}
		below, err := entriesOf(m.From, m.To)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, below...)
	}
	return mounts, nil
}

// hasDirectory reports whether root directories have a directory without an image.
func hasDirectory(name string) bool {
	info, err := os.Stat(name)
	exists := err == nil && info.IsDir()
	return slices.ContainsFunc(append([]string{"/tmp", "/var/tmp"}, systemDirs...), func(dir string) bool {
		return isBelow(dir, name) || exists && isBelow(name, dir)
	})
}

// systemDirs are mounted read-only, if they exist.
var systemDirs = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/sys",
	"/nix/store", "/gnu/store", "/run/current-system", "/var/lib/ca-certificates",
}

// noHostPaths returns the paths that no hostPath volume may show, with links resolved.
func (r *Runtime) noHostPaths() []string {
	paths := []string{r.config.Root}
	for _, path := range slices.Concat([]string{"/proc", "/sys", "/dev", "/run", "/root", "/etc/kubernetes",
		"/etc/rancher"}, r.config.Hidden) {
		if real, err := filepath.EvalSymlinks(path); err == nil { // else it does not exist
			paths = append(paths, real)
		}
	}
	return paths
}

// mayShow returns an error if a hostPath volume may not show a path, which has no links.
func mayShow(real string, hidden []string) error {
	for _, path := range hidden {
		if isBelow(real, path) || isBelow(path, real) {
			return fmt.Errorf("hostPath %s is, contains or is inside a path that is hidden from pods", real)
		}
	}
	return nil
}

// prepareHostPath checks a hostPath volume and creates its file or directory, as its type requires.
func (s *sandbox) prepareHostPath(h *corev1.HostPathVolumeSource) error {
	kind := corev1.HostPathUnset
	if h.Type != nil {
		kind = *h.Type
	}
	// Check the existing part of the path before anything is created.
	existing := filepath.Clean(h.Path)
	real, err := filepath.EvalSymlinks(existing)
	for errors.Is(err, fs.ErrNotExist) && existing != "/" {
		existing = filepath.Dir(existing)
		real, err = filepath.EvalSymlinks(existing)
	}
	if err != nil {
		return err
	}
	rest, err := filepath.Rel(existing, filepath.Clean(h.Path))
	if err != nil {
		return err
	}
	if err := mayShow(filepath.Join(real, rest), s.runtime.noHostPaths()); err != nil {
		return err
	}
	info, err := os.Stat(h.Path)
	if errors.Is(err, fs.ErrNotExist) && (kind == corev1.HostPathDirectoryOrCreate ||
		kind == corev1.HostPathFileOrCreate) {
		return s.createHostPath(real, rest, kind == corev1.HostPathFileOrCreate)
	}
	if err != nil {
		return fmt.Errorf("hostPath type check failed: %w", err)
	}
	switch kind {
	case corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
		if !info.IsDir() {
			return fmt.Errorf("hostPath type check failed: %s is not a directory", h.Path)
		}
	case corev1.HostPathFile, corev1.HostPathFileOrCreate:
		if !info.Mode().IsRegular() {
			return fmt.Errorf("hostPath type check failed: %s is not a file", h.Path)
		}
	case corev1.HostPathSocket:
		if info.Mode()&fs.ModeSocket == 0 {
			return fmt.Errorf("hostPath type check failed: %s is not a socket file", h.Path)
		}
	case corev1.HostPathCharDev, corev1.HostPathBlockDev:
		return fmt.Errorf("the process runtime does not support hostPath volumes of type %s", kind)
	}
	return nil
}

// createHostPath creates a directory or a file, owned by the pod's user, below an existing
// directory. An agent that runs as root creates it only where every user may.
func (s *sandbox) createHostPath(parent, name string, file bool) error {
	info, err := os.Stat(parent)
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 && info.Mode().Perm()&0o002 == 0 {
		return fmt.Errorf("hostPath %s does not exist, and the pod's user may not create it",
			filepath.Join(parent, name))
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return err
	}
	defer root.Close()
	at := ""
	for part := range strings.SplitSeq(name, "/") {
		at = filepath.Join(at, part)
		if file && at == name {
			f, err := root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			f.Close()
		} else if err := root.Mkdir(at, 0o755); err != nil {
			return err
		}
		if os.Geteuid() == 0 {
			if err := root.Lchown(at, int(s.user), int(s.user)); err != nil {
				return err
			}
		}
	}
	return nil
}

// isBelow reports whether a path is a directory or below it.
func isBelow(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
