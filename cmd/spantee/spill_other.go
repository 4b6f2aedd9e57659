//go:build !linux

package main

import "os"

func openUnlinked(dir string) (*os.File, error) { return createUnlinked(dir) }
