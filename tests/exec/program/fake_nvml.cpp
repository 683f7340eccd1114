// A library of the driver's names, with a card that waits in a slot of eight lanes and runs into its power limit.
extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  static int card = 0;
  *device = &card;
  return bus[0] == '0' ? 0 : 6;  // not found
}
int nvmlDeviceGetClockInfo(void*, unsigned type, unsigned* mhz) {
  *mhz = type == 1 ? 1755 : 2619;
  return 0;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 449500;
  return 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  *milliwatts = 450000;
  return 0;
}
// The name of older drivers alone.
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = 0x4;
  return 0;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void*, unsigned* generation) {
  *generation = 4;
  return 0;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* generation) {
  *generation = 4;
  return 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* lanes) {
  *lanes = 8;
  return 0;
}
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* lanes) {
  *lanes = 8;
  return 0;
}
int nvmlDeviceGetTemperature(void*, unsigned, unsigned*) { return 3; }  // not supported

}  // extern "C"
