//go:build !linux

package main

// releasePages is known of Linux only.
func releasePages() {}
