# What `cmake --install` installs: the program, and the libraries sim, hwdb, calibrate and reports with their headers,
# for find_package(llmsim).  hwdb/llmsim.h is the header to begin with.
include(CMakePackageConfigHelpers)

set(exported llmsim_sim llmsim_catalogue llmsim_hwdb llmsim_calibrate llmsim_reports)
install(TARGETS llmsim RUNTIME COMPONENT program)
install(TARGETS ${exported} llmsim_warnings llmsim_sanitizers llmsim_false_alarms EXPORT llmsim ARCHIVE)
set_target_properties(llmsim_catalogue PROPERTIES EXPORT_NAME catalogue)
foreach(folder IN ITEMS sim hwdb calibrate reports)
  set_target_properties(llmsim_${folder} PROPERTIES EXPORT_NAME ${folder})
endforeach()
# Headers whose first comment says that they are private to a folder stay at home.
install(
  CODE
    "set(source \"${PROJECT_SOURCE_DIR}\")
     foreach(folder IN ITEMS sim hwdb calibrate reports)
       file(GLOB_RECURSE headers RELATIVE \${source} \${source}/\${folder}/*.h)
       foreach(header IN LISTS headers)
         file(READ \${source}/\${header} text)
         string(FIND \"\${text}\" \"#pragma once\" end)
         string(SUBSTRING \"\${text}\" 0 \${end} comment)
         if(NOT comment MATCHES \"Private to \")
           cmake_path(GET header PARENT_PATH place)
           file(INSTALL \${source}/\${header} DESTINATION \"\${CMAKE_INSTALL_PREFIX}/include/llmsim/\${place}\")
         endif()
       endforeach()
     endforeach()"
)
install(EXPORT llmsim NAMESPACE llmsim:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/llmsim)

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/llmsimConfig.cmake.in ${PROJECT_BINARY_DIR}/llmsimConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/llmsim
)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/llmsimConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/llmsimConfig.cmake ${PROJECT_BINARY_DIR}/llmsimConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/llmsim)

include(${CMAKE_CURRENT_LIST_DIR}/packaging/deb.cmake)
