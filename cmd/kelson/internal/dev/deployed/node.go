package deployed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/kubernetes/node"
	"kelson.dev/kubernetes/node/process"
	"kelson.dev/toolchain/adopt"
	"kelson.dev/toolchain/walk"
)

// ErrUnsupported means that this machine cannot run the pod of an operator: it cannot give a
// process its own root directory.
var ErrUnsupported = errors.New("this machine cannot run pods with volumes")

// NodeConfig configures a Node.
type NodeConfig struct {
	// Config connects to the control plane.
	Config *rest.Config
	// Server is the address (host:port) at which pods reach it.
	Server string
	// Dir is a folder for the files of the node and its pods.
	Dir string
	// Output returns the writer for the output of a container that starts.
	Output func() io.WriteCloser
	// Ended, if not nil, is called when a container has ended.
	Ended func(node.Exit)
}

// Node is the node that runs the operator's pod.
type Node struct {
	image  string // the folder with the files of the operator's image
	cancel context.CancelFunc
	done   chan error
}

// StartNode registers the node and runs its pods until Stop. The error is ErrUnsupported if the
// machine cannot run them.
func StartNode(cfg NodeConfig) (*Node, error) {
	n := &Node{image: filepath.Join(cfg.Dir, "image"), done: make(chan error, 1)}
	if err := os.MkdirAll(n.image, 0o755); err != nil {
		return nil, err
	}
	address := node.MachineAddress()
	processes, err := process.New(process.Config{
		Root: filepath.Join(cfg.Dir, "pods"), HostIP: address, Images: map[string]string{image: n.image},
	})
	if errors.Is(err, process.ErrUnsupported) || errors.Is(err, process.ErrNotConfined) ||
		err == nil && processes.Confinement() != process.ConfinedRoot {
		return nil, ErrUnsupported
	}
	if err != nil {
		return nil, err
	}
	agent, err := node.NewAgent(node.AgentConfig{
		Config: cfg.Config, Name: NodeName, Runtime: &logged{Runtime: processes, config: cfg}, Address: address,
		Server: cfg.Server,
		// this machine does not have the images of other pods
		Taints: []corev1.Taint{{Key: "kelson.dev/operator-only", Effect: corev1.TaintEffectNoSchedule}},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() { n.done <- agent.Run(ctx) }()
	return n, nil
}

// Install replaces the operator's program and the files of its image, which are relative to dir;
// pods that start later run it. It moves the program.
func (n *Node) Install(binary, dir string, files []adopt.ImageFile) error {
	if err := os.Chmod(binary, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := copyFile(filepath.Join(dir, filepath.FromSlash(f.Source)),
			filepath.Join(n.image, filepath.FromSlash(f.To))); err != nil {
			return fmt.Errorf("copy %s to the operator's image: %w", f.Source, err)
		}
	}
	if err := os.Rename(binary, filepath.Join(n.image, program)); err != nil {
		return fmt.Errorf("install the operator's program: %w", err)
	}
	return nil
}

// copyFile copies a file, or the files of a folder, which replace existing ones.
func copyFile(from, to string) error {
	return walk.Dir(from, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if e.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if e.Type()&fs.ModeSymlink != 0 && rel != "." {
			return copyLink(name, target)
		}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, info.Mode().Perm()|0o444)
	})
}

// copyLink copies a symbolic link, which replaces an existing one.
func copyLink(from, to string) error {
	target, err := os.Readlink(from)
	if err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(target, to)
}

// Stop ends the pods and the node.
func (n *Node) Stop() error {
	n.cancel()
	if err := <-n.done; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// logged is a runtime that copies the output of its containers.
type logged struct {
	node.Runtime
	config NodeConfig
}

// Sandbox implements node.Runtime.
func (r *logged) Sandbox(ctx context.Context, pod *corev1.Pod) (node.Sandbox, error) {
	s, err := r.Runtime.Sandbox(ctx, pod)
	if err != nil {
		return nil, err
	}
	return &loggedSandbox{Sandbox: s, config: r.config}, nil
}

type loggedSandbox struct {
	node.Sandbox
	config  NodeConfig
	copying sync.WaitGroup
}

// Start implements node.Sandbox.
func (s *loggedSandbox) Start(ctx context.Context, spec node.ContainerSpec) (node.Container, error) {
	c, err := s.Sandbox.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	output := s.config.Output()
	s.copying.Go(func() {
		defer output.Close()
		if log, err := c.Logs(context.WithoutCancel(ctx), &corev1.PodLogOptions{Follow: true}); err == nil {
			_, _ = io.Copy(output, log) // ends with the container
			log.Close()
		}
		<-c.Done()
		if s.config.Ended != nil {
			s.config.Ended(c.Exit())
		}
	})
	return c, nil
}

// Remove implements node.Sandbox.
func (s *loggedSandbox) Remove() error {
	err := s.Sandbox.Remove()
	s.copying.Wait()
	return err
}

// SetVolume implements node.Mounter.
func (s *loggedSandbox) SetVolume(v node.Volume) error {
	return s.Sandbox.(node.Mounter).SetVolume(v)
}
