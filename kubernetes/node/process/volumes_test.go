//go:build linux

package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/kubernetes/node"
)

// volumeWorld returns a sandbox that can mount volumes, with the volumes of the tests, and a
// container spec with mounts of them.
func volumeWorld(t *testing.T, script string, mounts ...corev1.VolumeMount) (*sandbox, node.ContainerSpec) {
	t.Helper()
	spec := shell(script)
	spec.Container.VolumeMounts = mounts
	for _, m := range mounts {
		spec.SubPaths = append(spec.SubPaths, m.SubPath)
	}
	s := sandboxFor(t, t.Context(), spec).(*sandbox)
	if s.runtime.confinement != ConfinedRoot {
		t.Skipf("SKIPPED: this system confines pods by %q only", s.runtime.confinement)
	}
	return s, spec
}

func set(t *testing.T, s *sandbox, volumes ...node.Volume) {
	t.Helper()
	for _, v := range volumes {
		if err := s.SetVolume(v); err != nil {
			t.Fatalf("volume %s: %v", v.Name, err)
		}
	}
}

func runIn(t *testing.T, s *sandbox, spec node.ContainerSpec) string {
	t.Helper()
	c, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	return logOf(t, c, corev1.PodLogOptions{})
}

func file(path, data string, mode os.FileMode) node.File {
	return node.File{Path: path, Data: []byte(data), Mode: mode}
}

// Volumes are at their mount paths: below the root, in a system directory, in /tmp and in each
// other.
func TestVolumesAreMounted(t *testing.T) {
	mount := func(name, path, sub string, readOnly bool) corev1.VolumeMount {
		return corev1.VolumeMount{Name: name, MountPath: path, SubPath: sub, ReadOnly: readOnly}
	}
	s, spec := volumeWorld(t, `
		cat /config/a /config/deep/b; stat -L -c %a /config/a /config/deep/b
		(echo x > /config/new) 2>/dev/null || echo config is read-only
		cat /etc/kelson-test/app/a; ls /etc/passwd; cat /etc/only
		(echo x > /etc/new) 2>/dev/null || echo etc is read-only
		echo data > /data/file && cat /data/file; cat /tmp/nested/certs/a
		echo sub > /sub/file && cat /data/dir/deeper/file
		(echo x > /data/inner/file) 2>/dev/null || echo inner is read-only
		test -e /mine || echo no such volume`,
		mount("config", "/config", "", false), mount("config", "/etc/kelson-test/app", "", false),
		mount("config", "/etc/only", "a", false),
		mount("data", "/data", "", false), mount("data", "/sub", "dir/deeper", false),
		mount("config", "/tmp/nested/certs", "", true),
		mount("data", "/data/inner", "inner", true))
	set(t, s, node.Volume{Name: "config", Files: []node.File{file("a", "A\n", 0o640), file("deep/b", "B\n", 0o400)}},
		node.Volume{Name: "data"})
	want := "A\nB\n640\n400\nconfig is read-only\nA\n/etc/passwd\nA\netc is read-only\ndata\nA\nsub\ninner is read-only\nno such volume\n"
	if got := runIn(t, s, spec); got != want {
		t.Errorf("the container printed\n%s\nwant\n%s", got, want)
	}
	if _, err := os.Stat("/etc/kelson-test"); err == nil {
		t.Error("a mount point was created on the machine")
	}
	spec.Attempt = 1
	spec.Command = []string{"cat", "/data/file"}
	if got := runIn(t, s, spec); got != "data\n" {
		t.Errorf("the second attempt does not see the data of the first: %q", got)
	}
}

// A running container sees new files, and never a mixture of old and new ones.
func TestVolumeUpdate(t *testing.T) {
	s, spec := volumeWorld(t, `
		echo ready; while test "$(cat /config/version)" != 2; do :; done
		cat /config/added; test -e /config/removed || echo gone; cat /fixed`,
		corev1.VolumeMount{Name: "config", MountPath: "/config"},
		corev1.VolumeMount{Name: "config", MountPath: "/fixed", SubPath: "version"})
	set(t, s, node.Volume{Name: "config", Files: []node.File{file("version", "1\n", 0o644),
		file("removed", "", 0o644)}})
	c, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	one := int64(5)
	logOf(t, c, corev1.PodLogOptions{Follow: true, LimitBytes: &one})
	set(t, s, node.Volume{Name: "config", Files: []node.File{file("version", "2\n", 0o644),
		file("added", "new\n", 0o644)}})
	<-c.Done()
	if got, want := logOf(t, c, corev1.PodLogOptions{}), "ready\nnew\ngone\n1\n"; got != want {
		t.Errorf("the container printed %q, want %q", got, want)
	}
}

// The files of a volume have names below its folder, and none that the links for updates use.
func TestInvalidVolumeFiles(t *testing.T) {
	for _, name := range []string{"../escaped", "/absolute", "..data", "a/../../b"} {
		dir := t.TempDir()
		if err := writeVolume(filepath.Join(dir, "v"), []node.File{file(name, "x", 0o644)}, func(string) error {
			return nil
		}); err == nil {
			t.Errorf("a file %q was written", name)
		}
	}
}

// A link that a container made can't lead a subPath out of its volume.
func TestSubPathStaysInItsVolume(t *testing.T) {
	s, spec := volumeWorld(t, "ln -s / /data/out; ln -s ../../../../../../etc /data/up",
		corev1.VolumeMount{Name: "data", MountPath: "/data"})
	set(t, s, node.Volume{Name: "data"})
	runIn(t, s, spec)
	for _, sub := range []string{"out/etc", "up", "up/passwd", "../../.."} {
		spec.Container.VolumeMounts[0].SubPath, spec.SubPaths = sub, []string{sub}
		spec.Attempt++
		if c, err := s.Start(t.Context(), spec); err == nil {
			<-c.Done()
			t.Errorf("subPath %s was mounted", sub)
		}
	}
}

// hostPath volumes show files of the machine, but not those that are hidden from pods.
func TestHostPath(t *testing.T) {
	shown := t.TempDir()
	if err := os.Chmod(shown, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(shown, "root")); err != nil {
		t.Fatal(err)
	}
	for dir := shown; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	s, spec := volumeWorld(t, "echo x > /host/dir/file; cat /host/dir/file",
		corev1.VolumeMount{Name: "host", MountPath: "/host"})
	set(t, s, hostVolume(shown, ""))
	if err := os.Mkdir(filepath.Join(shown, "dir"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(shown, "dir"), 0o777); err != nil {
		t.Fatal(err)
	}
	if got := runIn(t, s, spec); got != "x\n" {
		t.Errorf("the container printed %q", got)
	}
	refuseHidden(t, s, shown)
	refuseOtherTypes(t, s, shown)
	createHostPaths(t, s, spec, shown)
	replaceHostPath(t, s, spec, shown)
}

// hostVolume returns a volume of a path and type; the empty type accepts everything.
func hostVolume(path string, kind corev1.HostPathType) node.Volume {
	return node.Volume{Name: "host", HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}
}

// refuseHidden checks that the sandbox refuses paths that are hidden from pods, or do not exist.
func refuseHidden(t *testing.T, s *sandbox, shown string) {
	data := s.runtime.config.Root
	for path, want := range map[string]string{
		"/": "hidden", "/proc": "hidden", "/run": "hidden", "/root/.kube": "hidden", data: "hidden",
		filepath.Dir(data): "hidden", data + "/new": "hidden",
		filepath.Join(shown, "root"): "hidden", filepath.Join(shown, "root", "root"): "hidden",
		filepath.Join(shown, "missing"): "no such file",
	} {
		if err := s.SetVolume(hostVolume(path, "")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("hostPath %s: %v, want %q", path, err, want)
		}
	}
}

// refuseOtherTypes checks that the type of a volume must be that of the path.
func refuseOtherTypes(t *testing.T, s *sandbox, shown string) {
	for path, k := range map[string]corev1.HostPathType{shown: corev1.HostPathFile,
		"/etc/passwd": corev1.HostPathDirectory, "/etc/group": corev1.HostPathSocket, "/tmp": corev1.HostPathBlockDev} {
		if err := s.SetVolume(hostVolume(path, k)); err == nil {
			t.Errorf("hostPath %s is accepted with type %s, want an error", path, k)
		}
	}
}

// createHostPaths checks that pods can create paths, but only where their users may.
func createHostPaths(t *testing.T, s *sandbox, spec node.ContainerSpec, shown string) {
	create := func(path string, k corev1.HostPathType) error { return s.SetVolume(hostVolume(path, k)) }
	if err := create(filepath.Join(shown, "new", "dir"), corev1.HostPathDirectoryOrCreate); err != nil {
		t.Errorf("a directory in one that all users may write to is not created: %v", err)
	}
	spec.Attempt, spec.Command = 1, []string{"touch", "/host/mine"}
	if got := runIn(t, s, spec); got != "" {
		t.Errorf("the pod can't write to the directory that it created: %s", got)
	}
	if err := create(filepath.Join(shown, "new-file"), corev1.HostPathFileOrCreate); err != nil {
		t.Errorf("a file in a directory that all users may write to is not created: %v", err)
	}
	if os.Geteuid() == 0 {
		for _, k := range []corev1.HostPathType{corev1.HostPathDirectoryOrCreate, corev1.HostPathFileOrCreate} {
			if err := create("/etc/kelson-test", k); err == nil || !strings.Contains(err.Error(), "may not create it") {
				t.Errorf("%s in /etc: %v, want an error that pods may not create it", k, err)
				os.RemoveAll("/etc/kelson-test")
			}
		}
	}
}

// replaceHostPath checks that a pod cannot replace a link by one to a hidden folder between the
// check of the volume and its mount.
func replaceHostPath(t *testing.T, s *sandbox, spec node.ContainerSpec, shown string) {
	link := filepath.Join(shown, "link")
	if err := os.Symlink("dir", link); err != nil {
		t.Fatal(err)
	}
	set(t, s, hostVolume(link, corev1.HostPathDirectory))
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(s.runtime.config.Root, link); err != nil {
		t.Fatal(err)
	}
	spec.Attempt = 7
	if _, err := s.Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "hidden") {
		t.Errorf("a link to the data directory: %v, want an error that it is hidden", err)
	}
}

// The files of an image are in the root directory, beside those of the system, and a volume with a
// handle outlives its pod.
func TestImageAndClaim(t *testing.T) {
	image := t.TempDir()
	if err := os.WriteFile(filepath.Join(image, "program"),
		[]byte("#!/bin/sh\ntest -e /etc/passwd && cat /etc/shop/greeting /state/file; echo kept > /state/file\n"),
		0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(image, "etc", "shop"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(image, "etc", "shop", "greeting"), []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, spec := volumeWorld(t, "", corev1.VolumeMount{Name: "state", MountPath: "/state"})
	s.runtime.config.Images = map[string]string{"example.com/program:v1": image}
	spec.Container.Image, spec.Command = "example.com/program:v1", []string{"/program"}
	set(t, s, node.Volume{Name: "state", Handle: "pvc-1"})
	if got := runIn(t, s, spec); !strings.Contains(got, "No such file") {
		t.Errorf("the first pod printed %q", got)
	}
	pod := spec.Pod.DeepCopy()
	pod.UID = "uid-2"
	other, err := s.runtime.Sandbox(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Remove()
	spec.Pod, spec.Container = pod, &pod.Spec.Containers[0]
	set(t, other.(*sandbox), node.Volume{Name: "state", Handle: "pvc-1"})
	if got := runIn(t, other.(*sandbox), spec); got != "hello\nkept\n" {
		t.Errorf("the second pod printed %q", got)
	}
}
