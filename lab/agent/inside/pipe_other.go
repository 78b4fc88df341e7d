//go:build !linux

package inside

import (
	"io"
	"runtime"
	"syscall"
)

// pipe is a file descriptor of a pipe that blocks.
type pipe struct{ fd int }

func (p pipe) read(into []byte) (int, error) {
	for {
		n, err := syscall.Read(handle(p.fd), into)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (p pipe) write(data []byte) error {
	for len(data) > 0 {
		n, err := syscall.Write(handle(p.fd), data)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return err
		default:
			data = data[n:]
		}
	}
	return nil
}

// pause sleeps in real time. Other goroutines may run meanwhile.
func pause() { runtime.Gosched() }

// threadsSleep would report whether all other threads of the process are blocked. Here, it assumes
// that after many pauses.
func threadsSleep(pauses int) bool { return pauses > 500 }
