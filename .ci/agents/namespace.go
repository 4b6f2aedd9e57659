package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// An agent never reaches a network: it runs in a namespace that has only loopback.

var errNoNamespace = errors.New("no network namespace can be had: it needs root, or sudo without a password")

// inNamespace runs this program again, in a network namespace of its own.
func inNamespace(arguments ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := append([]string{"unshare", "--net", "--", self, "inside"}, arguments...)
	if os.Getuid() != 0 {
		command = append([]string{"sudo", "-n"}, command...)
	}
	probe := exec.CommandContext(context.Background(), command[0], append(append([]string{}, command[1:len(command)-len(arguments)-2]...), "true")...)
	if out, err := probe.CombinedOutput(); err != nil {
		return fmt.Errorf("%w (%s)", errNoNamespace, strings.TrimSpace(string(out)))
	}
	cmd := exec.CommandContext(context.Background(), command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// enterNamespace brings loopback up, makes sure that there is nothing else, and becomes the
// user again who asked for it.
func enterNamespace() error {
	if err := loopbackUp(); err != nil {
		return err
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return fmt.Errorf("the namespace has the network interface %s", i.Name)
		}
	}
	uid, gid := os.Getenv("SUDO_UID"), os.Getenv("SUDO_GID")
	if os.Getuid() != 0 || uid == "" {
		return nil
	}
	group, err := strconv.Atoi(gid)
	if err != nil {
		return err
	}
	user, err := strconv.Atoi(uid)
	if err != nil {
		return err
	}
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(group), syscall.Setuid(user))
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // it was only asked
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}
