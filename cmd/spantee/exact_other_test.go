//go:build !linux

package main

func spliceWriter() {}
