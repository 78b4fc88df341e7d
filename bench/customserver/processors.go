package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// onProcessor calls start so that the processes that it starts may only use one processor.
func onProcessor(number int, start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("read the processors of a thread: %w", err)
	}
	if err := bindThread(0, number); err != nil {
		return err
	}
	defer func() { _ = unix.SchedSetaffinity(0, &before) }()
	return start()
}

// bind lets this process use only one processor.
func bind(number int) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range threads { // later threads inherit it
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := bindThread(id, number); err != nil {
			return err
		}
	}
	runtime.GOMAXPROCS(1)
	return nil
}

// bindThread lets a thread use only one processor; thread 0 is the current one.
func bindThread(thread, number int) error {
	var set unix.CPUSet
	set.Set(number)
	if err := unix.SchedSetaffinity(thread, &set); err != nil {
		return fmt.Errorf("bind a thread to processor %d: %w", number, err)
	}
	return nil
}
